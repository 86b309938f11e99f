// Package measure has the common part of the Go drivers: the jobs, the clock and the JSON. See ../README.md.
package measure

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Work is one way to set up a worker: its name under "receive", after "due_" and "scheduled_", and how many handlers run
// at the same time.
type Work struct {
	Name      string
	Handlers  int
	Instances int  // workers side by side, each with so many handlers; 0: one
	Tuned     bool // with what the library offers against lateness
}

// Peer is the library to measure.
type Peer interface {
	// Send returns when Redis has the message. Due zero: at once. Called by several threads.
	Send(queue, payload string, due time.Time) error
	// Start starts a worker; handle is called by all its handlers. Fast: with the settings for throughput.
	Start(queue string, work Work, fast bool, handle func(payload string)) (stop func())
}

// Plan has the settings that differ between libraries.
type Plan struct {
	Version string
	Works   []Work // each gives two figures under "receive"
	Best    int    // which of them takes part in end_to_end
	Tuned   string // what Work.Tuned changes, for people
}

const (
	warmups   = 2000
	senders   = 8
	perSecond = 1000 // scheduled messages
)

var (
	socket  = flag.String("socket", "", "unix socket of a private Redis")
	_       = flag.Int("port", 0, "not used: unix sockets do")
	count   = flag.Int("count", 50000, "messages for each figure")
	size    = flag.Int("bytes", 64, "of each payload")
	repeat  = flag.Int("repeat", 3, "how often each figure is measured; the median counts")
	seconds = flag.Int("seconds", 10, "of scheduled messages")
	lone    = flag.Bool("one-thread", false, "only print the rate of sends by one thread")
	memory  = flag.Int("memory", 0, "only print what so many waiting messages cost an empty Redis, in bytes for each")
	idle    = flag.Bool("idle", false, "only start an idle worker, and print a line when it runs")
)

// Socket returns the address of Redis.
func Socket() string {
	if !flag.Parsed() {
		flag.Parse()
	}
	if *socket == "" || *size < 24 || *count < 1 || *repeat < 1 || *seconds < 1 {
		log.Fatal("usage: -socket PATH [-count N] [-bytes N, at least 24] [-repeat N] [-seconds N] [-idle | -memory N | -one-thread]")
	}
	return *socket
}

// Run does all jobs with the peer and prints the figures.
func Run(peer Peer, plan Plan) {
	Socket()
	if *idle {
		peer.Start("idle", Work{Handlers: 1}, false, func(string) {})
		fmt.Println("idle")
		select {}
	}
	m := &run{peer: peer}
	later := time.Now().Add(time.Hour)
	if *memory > 0 {
		m.send("memory", 0, later) // loads scripts, and is not counted
		before := UsedMemory(*socket)
		m.sendAll("memory", *memory, senders, later)
		fmt.Println(round(float64(UsedMemory(*socket)-before) / float64(*memory)))
		return
	}
	oneThread := func(q string) float64 { return m.sendAll(q, *count, 1, later) }
	if *lone {
		m.sendAll("warm", warmups, 1, later)
		fmt.Println(median(oneThread))
		return
	}
	say("warm-up")
	m.sendAll("warm", warmups, senders, time.Time{})
	m.receive("warm", warmups, plan.Works[plan.Best])

	send := map[string]float64{
		"one_thread":    median(oneThread),
		"eight_threads": median(func(q string) float64 { return m.sendAll(q, *count, senders, later) }),
	}
	say("sent %v/s", send)
	receive := map[string]float64{}
	for _, work := range plan.Works {
		work := work
		due, scheduled := "due_"+work.Name, "scheduled_"+work.Name
		receive[due] = median(func(q string) float64 {
			m.sendAll(q, *count, senders, time.Time{})
			return m.receive(q, *count, work)
		})
		receive[scheduled] = median(func(q string) float64 {
			m.sendScheduled(q, *count)
			return m.receive(q, *count, work)
		})
		say("received with %s: due %v/s, scheduled %v/s", work.Name, receive[due], receive[scheduled])
	}
	result := map[string]interface{}{
		"version":    plan.Version,
		"transport":  "unix",
		"send":       send,
		"receive":    receive,
		"end_to_end": median(func(q string) float64 { return m.endToEnd(q, *count, plan.Works[plan.Best]) }),
	}
	say("lateness")
	result["lateness_ms"] = m.medianLateness("late", Work{Handlers: 4})
	if plan.Tuned != "" {
		result["lateness_tuned_ms"] = m.medianLateness("tuned", Work{Handlers: 4, Tuned: true})
		result["tuned"] = plan.Tuned
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		log.Fatal(err)
	}
}

type run struct{ peer Peer }

func say(format string, values ...interface{}) { fmt.Fprintf(os.Stderr, "  "+format+"\n", values...) }

func round(x float64) float64 { return math.Round(x*100) / 100 }

var queues int // of all medians

// median measures on a new queue each time.
func median(measure func(queue string) float64) float64 {
	rates := make([]float64, *repeat)
	for i := range rates {
		queues++
		rates[i] = measure("bench" + strconv.Itoa(queues))
	}
	sort.Float64s(rates)
	return float64(int64(rates[(len(rates)-1)/2]))
}

// payload carries the due time in microseconds and the number of the message.
func payload(due time.Time, number int) string {
	text := fmt.Sprintf("%016d%08d", due.UnixNano()/1000, number)
	return text + strings.Repeat("x", *size-len(text))
}

func (m *run) send(queue string, number int, due time.Time) {
	stamp := due
	if due.IsZero() {
		stamp = time.Now()
	}
	if err := m.peer.Send(queue, payload(stamp, number), due); err != nil {
		log.Fatalf("a send failed: %v", err)
	}
}

// sendAll returns messages a second.
func (m *run) sendAll(queue string, n, threads int, due time.Time) float64 {
	var group sync.WaitGroup
	start := time.Now()
	for thread := 0; thread < threads; thread++ {
		group.Add(1)
		go func(thread int) {
			defer group.Done()
			for i := thread; i < n; i += threads {
				m.send(queue, i, due)
			}
		}(thread)
	}
	group.Wait()
	return float64(n) / time.Since(start).Seconds()
}

// sendScheduled sends messages that are all due at the same whole second, and returns when they are due. No worker runs.
func (m *run) sendScheduled(queue string, n int) {
	due := time.Now().Add(2*time.Second + time.Duration(n)*time.Second/10000).Truncate(time.Second)
	m.sendAll(queue, n, senders, due)
	if time.Now().After(due) {
		log.Fatal("scheduled: sending took longer than the time before the messages are due")
	}
	time.Sleep(time.Until(due.Add(10 * time.Millisecond)))
}

// arrivals records the first delivery of each message, and the time when all have arrived.
type arrivals struct {
	late []int64 // microseconds, plus one hour so that zero is "not yet"
	left int64
	done chan time.Time
}

const anHour = int64(3600 * 1e6)

func expect(n int) *arrivals {
	return &arrivals{late: make([]int64, n), left: int64(n), done: make(chan time.Time, 1)}
}

func (a *arrivals) handle(payload string) {
	now := time.Now()
	due, err1 := strconv.ParseInt(payload[:16], 10, 64)
	number, err2 := strconv.Atoi(payload[16:24])
	if err1 != nil || err2 != nil {
		log.Fatalf("a payload that was never sent: %q", payload)
	}
	if !atomic.CompareAndSwapInt64(&a.late[number], 0, now.UnixNano()/1000-due+anHour) {
		return // delivered again
	}
	if atomic.AddInt64(&a.left, -1) == 0 {
		a.done <- now
	}
}

func (a *arrivals) wait() time.Time {
	select {
	case end := <-a.done:
		return end
	case <-time.After(2 * time.Minute):
		log.Fatalf("%d of %d messages did not come within two minutes", atomic.LoadInt64(&a.left), len(a.late))
		panic("not reached")
	}
}

// receive returns messages a second, from the start of the worker to the last message.
func (m *run) receive(queue string, n int, work Work) float64 {
	arrivals := expect(n)
	start := time.Now()
	stop := m.start(queue, work, true, arrivals.handle)
	rate := float64(n) / arrivals.wait().Sub(start).Seconds()
	stop()
	return rate
}

func (m *run) endToEnd(queue string, n int, work Work) float64 {
	arrivals := expect(n)
	stop := m.start(queue, work, true, arrivals.handle)
	start := time.Now()
	m.sendAll(queue, n, senders, time.Time{})
	rate := float64(n) / arrivals.wait().Sub(start).Seconds()
	stop()
	return rate
}

func (m *run) start(queue string, work Work, fast bool, handle func(string)) (stop func()) {
	stops := []func(){m.peer.Start(queue, work, fast, handle)}
	for i := 1; i < work.Instances; i++ {
		stops = append(stops, m.peer.Start(queue, work, fast, handle))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// medianLateness measures on a new queue each time and has the median of each percentile.
func (m *run) medianLateness(queue string, work Work) map[string]float64 {
	all := map[string][]float64{}
	for i := 0; i < *repeat; i++ {
		for name, ms := range m.lateness(queue+strconv.Itoa(i), work) {
			all[name] = append(all[name], ms)
		}
	}
	result := map[string]float64{}
	for name, values := range all {
		sort.Float64s(values)
		result[name] = values[(len(values)-1)/2]
	}
	return result
}

// lateness has one message due each millisecond. All are sent before the first is due, then the worker starts.
func (m *run) lateness(queue string, work Work) map[string]float64 {
	n := *seconds * perSecond
	first := time.Now().Add(500*time.Millisecond + time.Duration(n)*time.Millisecond/5)
	var group sync.WaitGroup
	for thread := 0; thread < senders; thread++ {
		group.Add(1)
		go func(thread int) {
			defer group.Done()
			for i := thread; i < n; i += senders {
				m.send(queue, i, first.Add(time.Duration(i)*time.Second/perSecond))
			}
		}(thread)
	}
	group.Wait()
	if time.Now().After(first) {
		log.Fatal("lateness: sending took longer than the time before the first message is due")
	}
	arrivals := expect(n)
	stop := m.start(queue, work, false, arrivals.handle)
	arrivals.wait()
	stop()
	late := make([]float64, n)
	for i, us := range arrivals.late {
		late[i] = float64(us-anHour) / 1000
	}
	sort.Float64s(late)
	at := func(share float64) float64 { return round(late[int(share*float64(n-1))]) }
	return map[string]float64{"min": at(0), "p50": at(0.5), "p99": at(0.99), "max": at(1)}
}
