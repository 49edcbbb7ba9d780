// Variables of many kinds, whose values a debugger shows as well: source_values.
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum color { RED, GREEN = 5, BLUE = -3 };

struct point { short x, y; };

struct node {
	int id;
	struct node *next;
	const char *name;
	char tag[8];
	struct point points[3];
	union { long whole; struct { int low, high; }; };
	unsigned first : 3, second : 7;
	signed third : 5;
	enum color shade : 4;
	bool flag : 1;
	double weight;
};

typedef struct node node_t;

static long total = 40;
static __thread long per_thread = 7;
__thread short pairs[2] = { 11, -12 };
unsigned char bytes[4] = { 1, 2, 250, 255 };
struct node *first_node;

// In one register.
__attribute__((noinline)) long corner(struct point point, enum color color)
{
	return point.x * 3 + point.y + color; // a corner
}

__attribute__((noinline)) long visit(node_t *node, const char *text, unsigned short count, char letter)
{
	static int visits;
	int index = node->id - 2;
	long long large = 1LL << 40 | index;
	unsigned long unsigned_large = ~0UL - node->id;
	bool is_first = node == first_node;
	enum color color = is_first ? GREEN : BLUE;
	float ratio = node->id / 4.0f;
	double weight = node->weight * 2;
	char own[6] = { 'o', 'w', 'n', '0' + node->id };
	int list[3] = { index, index * 2, index * 3 };
	int *second = &list[1];
	struct point point = node->points[1];
	const int seven = 7;
	void *anything __attribute__((unused)) = node;

	visits++;
	total += count; // here
	return total + large + unsigned_large + color + (long)ratio + (long)weight + strlen(own) + *second + point.x
		+ corner(point, color) + seven + letter + strlen(text) + is_first + list[2];
}

int main(void)
{
	struct node second = { 2, NULL, "second \"quoted\"", "tag2", { { 1, 2 }, { -3, 4 }, { 5, 6 } }, { 0x500000006L }, 5, 100, -4, BLUE, true, 2.25 };
	struct node first = { 1, &second, "first", "seventh", { { 7, 8 }, { 9, 10 }, { 11, -12 } }, { -1L }, 2, 64, 7, GREEN, false, -0.5 };
	long sum = 0;

	first_node = &first;
	for (struct node *node = &first; node; node = node->next, per_thread *= 3, pairs[1]--)
		sum += per_thread + pairs[1] + visit(node, node->name, 60000 + node->id, 'a' + node->id);
	printf("%ld\n", sum);
	return 0;
}
