/* Browsers start no worker for a page that is opened from disk, and the search of the
   site is one. Here a hidden frame takes the part of the worker. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      const inside = (this.inside = frame.contentWindow)
      inside.document.open()
      inside.document.write(
        `<script>onmessage = null<\/script><script src="${url}"><\/script>`
      )
      inside.postMessage = (data) => this.answer(data)
      this.ready = new Promise((done) => { inside.onload = done })
      inside.document.close()
    }
    answer(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }
    postMessage(data) {
      this.ready.then(() =>
        this.inside.dispatchEvent(new MessageEvent("message", { data }))
      )
    }
    terminate() {}
  }
}
