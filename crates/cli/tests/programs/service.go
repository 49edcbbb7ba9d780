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
	for i := 0; i < units*4000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

//go:noinline
func left() {
	work(50)
}

//go:noinline
func right() {
	work(30)
	x := sink
	for i := 0; i < 20*4000; i++ {
		x = x*6364136223846793005 + 1442695040888963407
	}
	sink = x
}

func serve(requests <-chan []byte, replies chan<- int) {
	for request := range requests {
		left()
		right()
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
