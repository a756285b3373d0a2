/* Checks ${name}.c against Python here; exit code 0 is good. */
#include "${name}.h"

#include <stdint.h>
#include <stdio.h>

${tables}

int main(void)
{
    double numbers[${upper}_N_NUMBERS];
    int i, k, failures = 0;

    for (i = 0; i < ${n}; i++) {
        if (${name}_look_up(CONTEXT + i * ${upper}_N_AXES, numbers) != STATUS[i]) {
            failures++;
        }
        for (k = 0; k < ${upper}_N_NUMBERS; k++) {
            const int at = i * ${upper}_N_NUMBERS + k;
            const double difference = numbers[k] - NUMBER[at];
            if (!(difference <= ROUNDING[at] && -difference <= ROUNDING[at])) {
                failures++;
            }
        }
    }
    printf("${name}: %d of ${n} vectors, %d failures\n", i, failures);
    return failures != 0;
}
