/*
 * A program that computes digits of pi with GMP (Machin's formula), whose inner functions are assembly
 * without unwind tables. The same from two places:
 *
 *   main                     total 100
 *     often → digits         total  75
 *     seldom → digits        total  25
 */
#include <gmp.h>

#include "spin.h"

/* scale / (x - 1/3 x^3 + …) for arctan 1/x */
static NOINLINE void arctan(mpz_t sum, unsigned long x, const mpz_t scale) {
    mpz_t power, term;

    mpz_init(power);
    mpz_init(term);
    mpz_fdiv_q_ui(power, scale, x);
    mpz_set(sum, power);
    for (unsigned long n = 3; mpz_sgn(power); n += 2) {
        mpz_fdiv_q_ui(power, power, x * x);
        mpz_fdiv_q_ui(term, power, n);
        if (n & 2)
            mpz_sub(sum, sum, term);
        else
            mpz_add(sum, sum, term);
    }
    mpz_clear(power);
    mpz_clear(term);
}

static NOINLINE void digits(unsigned long count) {
    mpz_t scale, one, two, square;

    mpz_init(scale);
    mpz_init(one);
    mpz_init(two);
    mpz_init(square);
    mpz_ui_pow_ui(scale, 10, count);
    arctan(one, 5, scale);
    arctan(two, 239, scale);
    mpz_mul_ui(one, one, 16);
    mpz_mul_ui(two, two, 4);
    mpz_sub(one, one, two);
    /* Multiplications of large numbers have other inner functions. */
    for (int i = 0; i < 50; i++) {
        mpz_mul(square, one, one);
        mpz_sqrt(two, square);
    }
    sink += mpz_get_ui(one) + mpz_get_ui(two);
    mpz_clear(scale);
    mpz_clear(one);
    mpz_clear(two);
    mpz_clear(square);
}

static NOINLINE void often(void) {
    for (int i = 0; i < 3; i++)
        digits(1000);
}

static NOINLINE void seldom(void) {
    digits(1000);
}

int main(void) {
    for (;;) {
        often();
        seldom();
    }
}
