// Calls C, which calls Go again: of the CPU time, 20 % for `one`, 40 % for `two`, and 40 % for `back`, whose C calls Go.
package main

// #include "burn.h"
import "C"
import (
	"os"
	"strconv"
)

//go:noinline
func one(us C.long) { C.burn(us) }

//go:noinline
func two(us C.long) { C.burn(2 * us) }

//go:noinline
func back(us C.long) { C.by_go(2 * us) }

//export fromC
func fromC(us C.long) { C.burn(us) }

func main() {
	ms, _ := strconv.Atoi(os.Args[1])
	for i := 0; i < ms/5; i++ {
		one(1000)
		two(1000)
		back(1000)
	}
}
