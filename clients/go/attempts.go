package outrider

import (
	"math"
	"math/rand"
	"time"

	"google.golang.org/grpc/codes"
)

const (
	firstBackoff       = 100 * time.Millisecond
	longestPause       = 5 * time.Minute // that a server can make a client wait
	mostBroken         = 1               // connections that may break before anything has arrived, and the call is made again
	mostBrokenResuming = 3               // and that may break in a row before a further token arrives
)

// attempts at one call, over all addresses, under one deadline.
type attempts struct {
	maxRetries   int
	maxBackoff   time.Duration
	numAddresses int
	address      int // to use now
	deadline     time.Time
	refused      map[int]bool
	failures     int
	numBroken    int
}

// progressed counts retries anew.
func (a *attempts) progressed() { a.failures, a.numBroken = 0, 0 }

// failed moves to the next address and returns how long to wait before using it, or the error when it is time to stop.
//
// A server that is full is asked again when it says, if it does, after the others. One that does not say, or has another
// fingerprint, is passed over only when there is something to resume. A call that one server after another breaks down
// at is not carried on to all of them.
func (a *attempts) failed(err *Error, resuming bool) (time.Duration, *Error) {
	most := mostBroken
	if resuming {
		most = mostBrokenResuming
	}
	if err.Broke {
		a.numBroken++
	}
	if a.numBroken > most {
		if err.Lost = !resuming; err.Lost {
			err.Message += ": the connection broke before anything had arrived, which the call may have caused"
		}
		return 0, err
	}
	if !isPassing(err, resuming) {
		return 0, err
	}
	if err.Code == codes.FailedPrecondition {
		a.refused[a.address] = true
	}
	open := a.numAddresses - len(a.refused)
	a.failures++
	if open == 0 || a.failures > a.maxRetries*a.numAddresses {
		return 0, err
	}
	a.advance()
	if a.failures%open != 0 {
		return 0, nil
	}
	return a.pause(err, a.failures/open)
}

func (a *attempts) advance() {
	a.address = (a.address + 1) % a.numAddresses
	for a.refused[a.address] {
		a.address = (a.address + 1) % a.numAddresses
	}
}

func (a *attempts) pause(err *Error, rounds int) (time.Duration, *Error) {
	longest := math.Min(float64(a.maxBackoff), float64(firstBackoff)*math.Pow(2, float64(rounds-1)))
	pause := time.Duration(longest * (0.5 + rand.Float64()/2))
	isFull := err.Code == codes.ResourceExhausted
	if isFull && err.RetryAfter != nil {
		asked := *err.RetryAfter
		if asked > longestPause {
			asked = longestPause
		}
		if asked > pause {
			pause = asked
		}
	}
	if a.deadline.IsZero() || pause < time.Until(a.deadline) {
		return pause, nil
	}
	if isFull {
		return 0, err
	}
	const message = "the time given to the call ran out before a server could be reached: "
	return 0, &Error{Code: codes.DeadlineExceeded, Message: message + err.Message}
}

// isPassing says whether another try may succeed.
func isPassing(err *Error, resuming bool) bool {
	switch err.Code {
	case codes.Unavailable, codes.Canceled:
		return true
	case codes.FailedPrecondition:
		return resuming
	case codes.ResourceExhausted:
		return resuming || err.RetryAfter != nil
	}
	return false
}
