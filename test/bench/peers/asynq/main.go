// asynq measures github.com/hibiken/asynq. No release has a call for several tasks at once.
package main

import (
	"context"
	"log"
	"time"

	"measure"

	"github.com/hibiken/asynq"
)

type peer struct {
	redis  asynq.RedisClientOpt
	client *asynq.Client
}

func (p *peer) Send(queue, payload string, due time.Time) error {
	options := []asynq.Option{asynq.Queue(queue)}
	if !due.IsZero() {
		options = append(options, asynq.ProcessAt(due))
	}
	_, err := p.client.Enqueue(asynq.NewTask("bench", []byte(payload)), options...)
	return err
}

func (p *peer) Start(queue string, work measure.Work, fast bool, handle func(string)) (stop func()) {
	config := asynq.Config{
		Concurrency: work.Handlers,
		Queues:      map[string]int{queue: 1},
		LogLevel:    asynq.FatalLevel,
	}
	if fast || work.Tuned {
		config.TaskCheckInterval = 10 * time.Millisecond
		config.DelayedTaskCheckInterval = 20 * time.Millisecond
	}
	server := asynq.NewServer(p.redis, config)
	handler := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		handle(string(task.Payload()))
		return nil
	})
	if err := server.Start(handler); err != nil {
		log.Fatal(err)
	}
	return server.Shutdown
}

func main() {
	options := asynq.RedisClientOpt{Network: "unix", Addr: measure.Socket(), PoolSize: 32}
	measure.Run(&peer{redis: options, client: asynq.NewClient(options)}, measure.Plan{
		Version: "0.26.0",
		Works: []measure.Work{
			{Name: "one_worker", Handlers: 1},
			{Name: "eight_workers", Handlers: 8},
			{Name: "concurrency_100", Handlers: 100},
			{Name: "four_servers", Handlers: 8, Instances: 4},
		},
		Best:  3,
		Tuned: "TaskCheckInterval 10 ms instead of 1 s, DelayedTaskCheckInterval 20 ms instead of 5 s",
	})
}
