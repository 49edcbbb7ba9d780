// Large numbers: the inner loops of GMP are assembly without unwind tables.
#include <gmp.h>

int main(void) {
    mpz_t a, b, q, r;
    mpz_inits(a, b, q, r, NULL);
    mpz_ui_pow_ui(a, 3, 3000);
    mpz_ui_pow_ui(b, 7, 500);
    for (int i = 0; i < 1; i++) {
        mpz_mul(q, a, a);
        mpz_tdiv_qr(q, r, a, b);
        mpz_gcd(r, a, b);
        mpz_sqrt(q, a);
        mpz_addmul_ui(a, q, 12345);
        mpz_powm_ui(r, a, 5, b);
        mpz_fdiv_q_2exp(q, a, 77);
    }
    char *text = mpz_get_str(NULL, 10, q);
    int ok = text[0] != 0;
    mpz_clears(a, b, q, r, NULL);
    return !ok;
}
