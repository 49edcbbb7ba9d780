// Goroutines that wait in each way, in a function of their own each, which adds up by its own clock how long it waited.
// Two sorts wait already when the rest begins, and until the program ends.
package main

import (
	"fmt"
	"net"
	"sync"
	"time"
)

var waited struct {
	sync.Mutex
	by map[string]time.Duration
}

// Goroutines of the runtime, too, take part in what is added up here: only `wait` is timed.
func timed(name string, wait func()) {
	begun := time.Now()
	wait()
	took := time.Since(begun)
	waited.Lock()
	waited.by[name] += took
	waited.Unlock()
}

//go:noinline
func sleeps() { time.Sleep(60 * time.Millisecond) }

//go:noinline
func receives(channel chan int) { <-channel }

//go:noinline
func sends(channel chan int) { channel <- 1 }

//go:noinline
func locks(mutex *sync.Mutex) { mutex.Lock() }

//go:noinline
func selects(one, other chan int) {
	select {
	case <-one:
	case <-other:
	}
}

//go:noinline
func reads(connection net.Conn) {
	var buffer [1]byte
	connection.Read(buffer[:])
}

//go:noinline
func forever() { select {} }

func main() {
	waited.by = map[string]time.Duration{}
	begun := time.Now()
	for i := 0; i < 3; i++ {
		go forever()
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		panic(err)
	}
	server, err := listener.Accept()
	if err != nil {
		panic(err)
	}
	for round := 0; round < 5; round++ {
		var all sync.WaitGroup
		var mutex sync.Mutex
		toReceive, toSend, toSelect := make(chan int), make(chan int), make(chan int)
		run := func(name string, wait func()) {
			all.Add(1)
			go func() {
				timed(name, wait)
				all.Done()
			}()
		}
		mutex.Lock()
		run("sleeps", sleeps)
		run("receives", func() { receives(toReceive) })
		run("sends", func() { sends(toSend) })
		run("locks", func() { locks(&mutex); mutex.Unlock() })
		run("locks", func() { locks(&mutex); mutex.Unlock() })
		run("selects", func() { selects(toSelect, nil) })
		run("reads", func() { reads(server) })
		time.Sleep(100 * time.Millisecond)
		toReceive <- 1
		client.Write([]byte{1})
		time.Sleep(50 * time.Millisecond)
		<-toSend
		mutex.Unlock()
		time.Sleep(30 * time.Millisecond)
		toSelect <- 1
		all.Wait()
	}
	fmt.Println("forever", 3*time.Since(begun).Nanoseconds())
	for name, time := range waited.by {
		fmt.Println(name, time.Nanoseconds())
	}
}
