// What the probes share. A field comes out as a line of assembly, "##FIELD name|documentation|value", so that nothing
// needs to be linked or run. ABSENT is for versions that do not have it; any version may leave the text empty.
#include <stddef.h>

#define FIELD(name, text, value) __asm__ volatile("\n##FIELD " name "|" text "|%c0" ::"i"(value))
#define ABSENT(name, text) __asm__ volatile("\n##FIELD " name "|" text "|-")
