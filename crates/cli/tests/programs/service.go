// A service in little: goroutines hand work to each other by channels, and call the kernel. Of what `serve`
// does:
//
//	main.serve
//	  main.left → main.work     50
//	  main.right                20
//	    main.work               30
package main

import "os"

var sink uint64

//go:noinline
func work(units int) {
	x := sink
	for i := 0; i < units*40; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

//go:noinline
func left(size int) {
	work(50 * size)
}

//go:noinline
func right(size int) {
	work(30 * size)
	x := sink
	for i := 0; i < 20*size*40; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

func serve(requests <-chan []byte, replies chan<- int) {
	random := uint32(1)
	for request := range requests {
		// Requests that all took as long would beat with a clock that samples nearly as often.
		random = random*1664525 + 1013904223
		size := 50 + int(random>>16)%101
		left(size)
		right(size)
		replies <- len(request)
	}
}

func main() {
	requests, replies := make(chan []byte), make(chan int)
	for i := 0; i < 4; i++ {
		go serve(requests, replies)
	}
	zero, err := os.Open("/dev/zero")
	if err != nil {
		panic(err)
	}
	for waiting := 0; ; {
		buffer := make([]byte, 4096)
		if _, err := zero.Read(buffer); err != nil {
			panic(err)
		}
		requests <- buffer
		for waiting++; waiting > 3; waiting-- {
			<-replies
		}
	}
}
