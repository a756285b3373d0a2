
/* At most ${depth} comparisons. */
static int_fast32_t locate(const real context[${d}])
{
    int_fast32_t node = 0;

    while (TREE_AXIS[node] >= 0) {
        if (context[TREE_AXIS[node]] <= TREE_CUT[node]) {
            node++;
        } else {
            node = (int_fast32_t)TREE_FOLLOW[node];
        }
    }
    return (int_fast32_t)TREE_FOLLOW[node];
}
