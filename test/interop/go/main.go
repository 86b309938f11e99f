// interop is the Go side of the interop tests: it runs the real Go library by flags and prints lines.
//
// Every command takes -socket PATH -queue NAME [-prefix P] [-hash-tag]. Payloads are printed unchanged, or with -hex as
// hexadecimal digits. A command that waits ends on SIGTERM or when its stdin closes, so it never outlives a test.
package main

import (
	"bufio"
	"encoding/hex"
	"flag"
	"fmt"
	"hash/fnv"
	"log"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hdt3213/delayqueue"
	"github.com/redis/go-redis/v9"
)

var (
	socket = flag.String("socket", "", "unix socket of Redis")
	queue  = flag.String("queue", "", "name of the queue")
	prefix = flag.String("prefix", "", "prefix of the keys; empty: the library's default")
	tagged = flag.Bool("hash-tag", false, "keys with hash tags")
	report = flag.Bool("report", false, "send and work: report events")
	asHex  = flag.Bool("hex", false, "payloads are read and printed as hexadecimal digits")

	// send
	count   = flag.Int("n", 1, "number of messages")
	payload = flag.String("payload", "", "payload of every message; empty: go-0, go-1 ...")
	delay   = flag.Duration("delay", 0, "delay until the messages are due")
	retries = flag.Int("retries", 3, "deliveries after the first")
	ttl     = flag.Duration("ttl", 0, "TTL of the bodies after the due time; 0: the library's default")
	cancel  = flag.Bool("cancel", false, "after a line on stdin: intercept every message")

	// work
	interval    = flag.Duration("interval", 50*time.Millisecond, "time between two fetches")
	concurrency = flag.Uint("concurrency", 1, "callbacks at the same time")
	limit       = flag.Uint("limit", 0, "most messages fetched and not settled; 0: no limit")
	lease       = flag.Duration("lease", 5*time.Second, "longest time a callback may take")
	redelivery  = flag.Duration("redelivery", 0, "delay of a refused message")
	hold        = flag.Duration("hold", 0, "duration of each callback")
	failEvery   = flag.Uint("fail-every", 0, "refuse one payload in so many at its first delivery; 0: none")
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: interop send|work|counts|events -socket PATH -queue NAME ...")
	}
	if err := flag.CommandLine.Parse(os.Args[2:]); err != nil {
		log.Fatal(err)
	}
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: *socket})
	var options []interface{}
	if *prefix != "" {
		options = append(options, delayqueue.UseCustomPrefix(*prefix))
	}
	if *tagged {
		options = append(options, delayqueue.UseHashTagKey())
	}
	switch os.Args[1] {
	case "send":
		send(newQueue(client, options))
	case "work":
		work(newQueue(client, options))
	case "counts":
		counts(delayqueue.NewMonitor(*queue, client, options...))
	case "events":
		events(delayqueue.NewMonitor(*queue, client, options...))
	default:
		log.Fatalf("unknown command %q", os.Args[1])
	}
}

func newQueue(client *redis.Client, options []interface{}) *delayqueue.DelayQueue {
	q := delayqueue.NewQueue(*queue, client, options...)
	if *report {
		q.EnableReport()
	}
	return q
}

// send prints the id of each message. With -cancel it then waits for a line, intercepts each message and prints the
// message's state and the result. The library can intercept only messages that the same process sent.
func send(q *delayqueue.DelayQueue) {
	options := []interface{}{delayqueue.WithRetryCount(*retries)}
	if *ttl > 0 {
		options = append(options, delayqueue.WithMsgTTL(*ttl))
	}
	var sent []*delayqueue.MessageInfo
	for i := 0; i < *count; i++ {
		message, err := q.SendDelayMsgV2(payloadOf(i), *delay, options...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(message.ID())
		sent = append(sent, message)
	}
	if !*cancel {
		return
	}
	if !bufio.NewScanner(os.Stdin).Scan() {
		log.Fatal("stdin closed before a line came")
	}
	for _, message := range sent {
		result, err := q.TryIntercept(message)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.State, result.Intercepted)
	}
}

func payloadOf(i int) string {
	if *payload == "" {
		return fmt.Sprintf("go-%d", i)
	}
	if !*asHex {
		return *payload
	}
	bytes, err := hex.DecodeString(*payload)
	if err != nil {
		log.Fatal(err)
	}
	return string(bytes)
}

// settling counts the callbacks that have returned and are not settled in Redis yet. The library's StopConsume does not
// wait for them.
type settling struct{ count int32 }

func (s *settling) OnEvent(event *delayqueue.Event) {
	if event.Code == delayqueue.AckEvent || event.Code == delayqueue.NackEvent {
		atomic.AddInt32(&s.count, -1)
	}
}

func (s *settling) wait() {
	for end := time.Now().Add(10 * time.Second); atomic.LoadInt32(&s.count) > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// work prints "take <payload>" when a callback starts and "ack <payload>" or "nack <payload>" when it ends.
func work(q *delayqueue.DelayQueue) {
	var mutex sync.Mutex
	seen := map[string]bool{}
	first := func(payload string) bool {
		mutex.Lock()
		defer mutex.Unlock()
		before := seen[payload]
		seen[payload] = true
		return !before
	}
	var left settling
	if !*report { // the library's reports need the only listener
		q.ListenEvent(&left)
	}
	q.WithCallback(func(payload string) bool {
		name := payload
		if *asHex {
			name = hex.EncodeToString([]byte(payload))
		}
		fmt.Println("take", name)
		time.Sleep(*hold)
		atomic.AddInt32(&left.count, 1)
		if first(payload) && chosen(payload) {
			fmt.Println("nack", name)
			return false
		}
		fmt.Println("ack", name)
		return true
	})
	q.WithFetchInterval(*interval).WithConcurrent(*concurrency).WithFetchLimit(*limit).
		WithMaxConsumeDuration(*lease).WithNackRedeliveryDelay(*redelivery)
	done := q.StartConsume()
	waitForEnd()
	q.StopConsume()
	<-done
	if !*report {
		left.wait()
	}
}

// chosen selects the payloads that are refused at first. It uses only the text, so that the tests can select the same.
func chosen(payload string) bool {
	if *failEvery == 0 {
		return false
	}
	sum := fnv.New32a()
	sum.Write([]byte(payload))
	return sum.Sum32()%uint32(*failEvery) == 0
}

// counts prints the numbers of pending, ready and processing messages.
func counts(m *delayqueue.Monitor) {
	var counted []interface{}
	for _, count := range []func() (int64, error){m.GetPendingCount, m.GetReadyCount, m.GetProcessingCount} {
		n, err := count()
		if err != nil {
			log.Fatal(err)
		}
		counted = append(counted, n)
	}
	fmt.Println(counted...)
}

type printer struct{}

func (printer) OnEvent(event *delayqueue.Event) {
	fmt.Println(event.Code, event.Timestamp, event.MsgCount)
}

// events prints "<code> <unix seconds> <count>" for each event in the queue's channel.
func events(m *delayqueue.Monitor) {
	stop, err := m.ListenEvent(printer{})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	waitForEnd()
}

func waitForEnd() {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)
	go func() {
		for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		}
		end <- os.Interrupt
	}()
	<-end
}
