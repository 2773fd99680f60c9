package clientprom_test

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zkd-project/zkd/client"
	"github.com/zkd-project/zkd/client/clientprom"
)

// Two clients of one program, told apart by a label. Serve the registry with
// promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
func Example() {
	registry := prometheus.NewRegistry()
	for _, name := range []string{"orders", "stock"} {
		m := clientprom.New()
		prometheus.WrapRegistererWith(prometheus.Labels{"client": name}, registry).MustRegister(m)
		if err := work(name, m); err != nil {
			fmt.Println(err)
		}
	}
}

func work(name string, m *clientprom.Metrics) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, "127.0.0.1:2181/"+name, client.WithTracer(m))
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	m.Attach(c)
	_, _, err = c.Get(ctx, "/config")
	return err
}
