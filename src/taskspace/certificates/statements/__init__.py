"""What is said: certificates, which word each may use, and its sentence."""
