// Arguments of Go's kinds: a pointer, a text, a slice, a truth value.
package main

import "fmt"

type Request struct {
	ID   int
	Name string
	Tags []string
}

//go:noinline
func handle(request *Request, name string, items []int, flag bool) int {
	sum := 0
	for i, item := range items {
		sum += item * i
	}
	if flag {
		sum += len(name) + request.ID
	}
	return sum
}

func main() {
	total := 0
	for i := 0; i < 5; i++ {
		request := &Request{ID: i, Name: fmt.Sprintf("request-%d", i), Tags: []string{"a", "b"}}
		total += handle(request, fmt.Sprintf("name-%d", i), []int{i, i + 1, i + 2}, i%2 == 0)
	}
	fmt.Println(total)
}
