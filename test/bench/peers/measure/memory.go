package measure

import (
	"bufio"
	"log"
	"net"
	"strconv"
	"strings"
)

// UsedMemory returns the bytes that Redis uses.
func UsedMemory(socket string) int64 {
	link, err := net.Dial("unix", socket)
	if err != nil {
		log.Fatal(err)
	}
	defer link.Close()
	if _, err := link.Write([]byte("INFO memory\r\n")); err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewReader(link)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			log.Fatal(err)
		}
		if strings.HasPrefix(line, "used_memory:") {
			used, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "used_memory:")), 10, 64)
			if err != nil {
				log.Fatal(err)
			}
			return used
		}
	}
}
