// Command load makes connections through Services and records each one that fails; it also has the server that answers
// them.
//
//	load serve PORT
//	load make --output FILE [--rate N] --new ADDRESS... --kept ADDRESS...
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"
)

type addresses []string

func (a *addresses) String() string { return strings.Join(*a, ",") }

func (a *addresses) Set(text string) error {
	*a = append(*a, text)
	return nil
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		serve(os.Args[2])
		return
	}
	flags := flag.NewFlagSet("make", flag.ExitOnError)
	var fresh, kept addresses
	output := flags.String("output", "", "the file that the records are appended to")
	rate := flags.Int("rate", 40, "new connections in a second, in all")
	flags.Var(&fresh, "new", "the address and port that new connections go to; may be given several times")
	flags.Var(&kept, "kept", "the address and port of a connection that exchanges all the time; may be given several times")
	if len(os.Args) < 2 || os.Args[1] != "make" || flags.Parse(os.Args[2:]) != nil || *output == "" || *rate < 1 {
		fmt.Fprintln(os.Stderr, "load serve PORT | load make --output FILE [--rate N] --new ADDRESS... --kept ADDRESS...")
		os.Exit(2)
	}
	records, err := openRecords(*output)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, address := range kept {
		go keep(address, records)
	}
	connect(fresh, time.Second/time.Duration(*rate), records)
}
