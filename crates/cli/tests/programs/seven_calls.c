// Calls a function seven times, each with another result.

__attribute__((noinline)) long doubled(long number)
{
	__asm__ volatile("" : "+r"(number));
	return 2 * number;
}

int main(void)
{
	long sum = 0;

	for (long number = 0; number < 7; number++)
		sum += doubled(number);
	return sum != 42;
}
