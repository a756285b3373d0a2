/* Checks ${name}.c against Python here; exit code 0 is good. */
#include "${name}.h"

#include <stdint.h>
#include <stdio.h>

typedef ${name}_real real;

${tables}

int main(void)
{
    int i, failures = 0;
${action}
    for (i = 0; i < ${n}; i++) {
        ${name}_selection found = ${name}_select(CONTEXT + i * ${upper}_N_AXES);
        if (found.policy != POLICY[i] || found.status != STATUS[i]) {
            failures++;
        }${act}
    }
    printf("${name}: %d of ${n} vectors, %d failures\n", i, failures);
    return failures != 0;
}
