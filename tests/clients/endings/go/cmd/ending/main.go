// Command ending streams from ADDRESS and prints the text; a line on standard input closes the client. HOW "leave"
// closes the stream after its first chunk. An error's code is the last line.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc/status"

	"outrider"
	outriderv1 "outrider/v1"
)

func main() {
	client, err := outrider.NewClient(os.Args[1:2], outrider.Options{})
	if err != nil {
		panic(err)
	}
	closed := make(chan struct{})
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		client.Close()
		close(closed)
	}()
	prompt := &outriderv1.Prompt{Input: &outriderv1.Prompt_Text{Text: "def quicksort"}}
	stream, err := client.Stream(context.Background(), &outriderv1.StreamGenerateRequest{Prompt: prompt})
	if err != nil {
		panic(err)
	}
	for {
		chunk, err := stream.Recv()
		if err != nil {
			fmt.Printf("\n%d\n", status.Code(err))
			break
		}
		fmt.Print(chunk.Text)
		if os.Args[2] == "leave" {
			stream.Close()
		}
	}
	<-closed
}
