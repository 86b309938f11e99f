// go-delayqueue measures github.com/hdt3213/delayqueue. It has no call for several messages at once.
package main

import (
	"io"
	"log"
	"sync"
	"time"

	"measure"

	"github.com/hdt3213/delayqueue"
	"github.com/redis/go-redis/v9"
)

type peer struct {
	client *redis.Client
	queues sync.Map // name -> *delayqueue.DelayQueue, for sending
}

func (p *peer) queue(name string) *delayqueue.DelayQueue {
	known, ok := p.queues.Load(name)
	if !ok {
		known, _ = p.queues.LoadOrStore(name, delayqueue.NewQueue(name, p.client))
	}
	return known.(*delayqueue.DelayQueue)
}

func (p *peer) Send(queue, payload string, due time.Time) error {
	if due.IsZero() {
		return p.queue(queue).SendDelayMsg(payload, 0)
	}
	return p.queue(queue).SendScheduleMsg(payload, due)
}

func (p *peer) Start(queue string, work measure.Work, fast bool, handle func(string)) (stop func()) {
	worker := delayqueue.NewQueue(queue, p.client, func(payload string) bool {
		handle(payload)
		return true
	}).WithConcurrent(uint(work.Handlers)).WithLogger(log.New(io.Discard, "", 0))
	// A lease begins when a message is fetched, and all due messages are fetched at once. With the default of 5 s the rest
	// of a backlog would be delivered again and again.
	worker.WithMaxConsumeDuration(10 * time.Minute)
	if fast || work.Tuned {
		worker.WithFetchInterval(20 * time.Millisecond)
	}
	worker.StartConsume()
	return worker.StopConsume
}

func main() {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: measure.Socket(), PoolSize: 32})
	measure.Run(&peer{client: client}, measure.Plan{
		Version: "1.1.2",
		Works: []measure.Work{
			{Name: "one_worker", Handlers: 1},
			{Name: "eight_workers", Handlers: 8},
			{Name: "eight_instances", Handlers: 1, Instances: 8},
		},
		Best:  2,
		Tuned: "WithFetchInterval(20 ms) instead of 1 s",
	})
}
