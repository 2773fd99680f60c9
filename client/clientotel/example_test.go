package clientotel_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/clientotel"
)

// Spans and metrics go to otel's global providers, and connections to the log besides.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	tel, err := clientotel.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	both := client.JoinTracers(tel, client.SlogTracer(slog.Default()))
	c, err := client.Dial(ctx, "127.0.0.1:2181/app", client.WithTracer(both))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close(ctx)
	if err := tel.Attach(c); err != nil {
		fmt.Println(err)
		return
	}
	data, _, err := c.Get(ctx, "/config") // a span below that of ctx
	fmt.Println(string(data), err)
}
