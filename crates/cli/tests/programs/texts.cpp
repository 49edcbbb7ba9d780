// A text by value, by reference, and a long one, which is elsewhere in memory.
#include <cstdio>
#include <string>
#include <vector>

__attribute__((noinline)) size_t greet(std::string plain, const std::string &reference)
{
	std::string long_one;
	for (int i = 0; i < 20; i++)
		long_one += "long ";
	std::vector<short> numbers = {3, -4, 5};
	size_t sum = plain.size() + reference.size(); // here
	return sum + long_one.size() + numbers.size();
}

int main()
{
	std::printf("%zu\n", greet("hi", "you there"));
}
