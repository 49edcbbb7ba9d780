// A text by value, by reference, and a long one, which is elsewhere in memory.
#include <cstdio>
#include <string>

__attribute__((noinline)) size_t greet(std::string plain, const std::string &reference)
{
	std::string long_one;
	for (int i = 0; i < 20; i++)
		long_one += "long ";
	size_t sum = plain.size() + reference.size(); // here
	return sum + long_one.size();
}

int main()
{
	std::printf("%zu\n", greet("hi", "you there"));
}
