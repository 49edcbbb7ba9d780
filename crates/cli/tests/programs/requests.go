// A service in small: goroutines that work, allocate, wait for one another and for the clock. Of the work
// that is known, two thirds are in `deep`:
//
//   main.work
//     main.spin      20
//     main.deep …
//       main.spin    40
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

var sink uint64

//go:noinline
func spin(units int) {
	x := sink
	for i := 0; i < units*4000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

//go:noinline
func deep(units, depth int) {
	if depth == 0 {
		spin(units)
		return
	}
	deep(units, depth-1)
	sink++
}

//go:noinline
func allocates() int {
	total := 0
	for i := 0; i < 200; i++ {
		total += len(fmt.Sprintf("%d of %v", i, make([]byte, 200)))
	}
	return total
}

//go:noinline
func clock() (ns int64) {
	for i := 0; i < 50; i++ {
		ns += time.Now().UnixNano()
	}
	return
}

func work(requests <-chan int, done *sync.WaitGroup) {
	defer done.Done()
	for range requests {
		spin(20)
		deep(40, 10)
		allocates()
		clock()
	}
}

func main() {
	rounds := 1000
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	requests := make(chan int)
	var done sync.WaitGroup
	for i := 0; i < runtime.NumCPU(); i++ {
		done.Add(1)
		go work(requests, &done)
	}
	for i := 0; i < rounds; i++ {
		requests <- i
		if i%10 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	close(requests)
	done.Wait()
}
