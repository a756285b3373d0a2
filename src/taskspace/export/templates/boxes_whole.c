
/* A box is known as a whole. */
static int knows(const real context[${d}], int_fast32_t region)
{
    (void)context;
    (void)region;
    return 1;
}
