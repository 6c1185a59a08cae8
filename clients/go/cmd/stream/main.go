// Command stream continues a prompt and prints the text as it streams, then what it cost.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"outrider"
	outriderv1 "outrider/v1"
)

const (
	failed      = 1
	wrongUsage  = 2
	interrupted = 130 // as shells report a process that SIGINT ended
)

func main() {
	arguments := readArguments()
	client, err := arguments.client()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(wrongUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	finished, err := printText(ctx, client, arguments)
	stop()
	client.Close()

	switch {
	case status.Code(err) == codes.Canceled:
		os.Exit(interrupted)
	case err != nil:
		for _, line := range explain(err) {
			fmt.Fprintln(os.Stderr, line)
		}
		os.Exit(failed)
	}
	fmt.Fprintln(os.Stderr, figures(finished))
}

type arguments struct {
	addresses  []string
	files      credentialFiles
	maxRetries int
	timeout    *time.Duration // nil for as long as it takes
	logprobs   *os.File
	request    *outriderv1.StreamGenerateRequest
}

// client returns one that trusts and shows what the files hold.
func (a *arguments) client() (*outrider.Client, error) {
	security, err := a.files.security()
	if err != nil {
		return nil, err
	}
	options := outrider.Options{TLS: security, MaxRetries: a.maxRetries}
	if a.maxRetries == 0 {
		options.MaxRetries = -1
	}
	if a.files.token != "" {
		token, err := os.ReadFile(a.files.token)
		if err != nil {
			return nil, err
		}
		options.Token = strings.TrimSpace(string(token))
	}
	return outrider.NewClient(a.addresses, options)
}

// credentialFiles names what to trust, and what to show.
type credentialFiles struct {
	authorities, certificate, key, token string
}

// security returns TLS where there are authorities to trust, else clear text; a certificate of ours goes with its key.
func (files *credentialFiles) security() (*tls.Config, error) {
	if files.authorities == "" {
		if files.certificate != "" || files.key != "" {
			return nil, errors.New("--tls-cert and --tls-key need --tls-ca")
		}
		return nil, nil
	}
	authorities, err := os.ReadFile(files.authorities)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s holds no certificate", files.authorities)
	}
	if files.certificate != "" || files.key != "" {
		own, err := tls.LoadX509KeyPair(files.certificate, files.key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// readArguments returns what the command line says. A field whose flag is not given stays unset, so that the server's
// default holds.
func readArguments() *arguments {
	sampling, stop, output := &outriderv1.SamplingParameters{}, &outriderv1.StopConditions{}, &outriderv1.OutputOptions{}
	parsed := &arguments{}
	files := &parsed.files
	flag.Func("address", "`HOST:PORT` of the server, once for each (default localhost:50051)", func(text string) error {
		parsed.addresses = append(parsed.addresses, text)
		return nil
	})
	flag.IntVar(&parsed.maxRetries, "max-retries", 10, "how `often` every address is tried again before a token comes")
	flag.Func("timeout", "the most `seconds` that all tries together may take", func(text string) error {
		seconds, err := strconv.ParseFloat(text, 64)
		timeout := time.Duration(seconds * float64(time.Second))
		parsed.timeout = &timeout
		return err
	})
	flag.Func("logprobs", "write each token's id and log-probability to this `file`", func(name string) (err error) {
		yes := true
		output.Logprobs = &yes
		parsed.logprobs, err = os.Create(name)
		return err
	})
	flag.StringVar(&files.authorities, "tls-ca", "", "call over TLS, trusting the certificates in this `file`")
	flag.StringVar(&files.certificate, "tls-cert", "", "`file` with a certificate to show")
	flag.StringVar(&files.key, "tls-key", "", "`file` with its key")
	flag.StringVar(&files.token, "token-file", "", "`file` with a token to show")
	flag.Func("max-tokens", "the most `tokens` to generate", func(text string) error {
		value, err := strconv.ParseInt(text, 10, 32)
		maxTokens := int32(value)
		stop.MaxTokens = &maxTokens
		return err
	})
	flag.Func("temperature", "`divisor` of the logits; 0 is greedy", func(text string) error {
		value, err := strconv.ParseFloat(text, 64)
		sampling.Temperature = &value
		return err
	})
	flag.Func("seed", "the same `seed` gives the same text", func(text string) error {
		value, err := strconv.ParseUint(text, 10, 64)
		sampling.Seed = &value
		return err
	})
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: %s [flags] PROMPT\n", os.Args[0])
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(wrongUsage)
	}
	if len(parsed.addresses) == 0 {
		parsed.addresses = []string{"localhost:50051"}
	}
	prompt := &outriderv1.Prompt{Input: &outriderv1.Prompt_Text{Text: flag.Arg(0)}}
	parsed.request = &outriderv1.StreamGenerateRequest{Prompt: prompt, Sampling: sampling, Stop: stop, Output: output}
	return parsed
}

// printText prints the text of a generation as it arrives, its log-probabilities into a file, if one is open, and
// returns the last message.
func printText(ctx context.Context, client *outrider.Client, arguments *arguments) (*outriderv1.Finished, error) {
	if arguments.timeout != nil {
		bounded, cancel := context.WithTimeout(ctx, *arguments.timeout)
		defer cancel()
		ctx = bounded
	}
	stream, err := client.Stream(ctx, arguments.request)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	hasText := false
	for {
		chunk, err := stream.Recv()
		if err != nil {
			if hasText {
				fmt.Println()
			}
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return stream.Received().Finished, err
		}
		fmt.Print(chunk.Text)
		hasText = hasText || chunk.Text != ""
		for _, record := range chunk.Records {
			fmt.Fprintln(arguments.logprobs, record.Id, record.GetRawLogprob())
		}
	}
}

// figures tells tokens, their rate, the time to the first one, what speculation did, and why the text ended.
func figures(finished *outriderv1.Finished) string {
	count, timings, speculation := finished.Usage.CompletionTokens, finished.Timings, finished.Speculation
	parts := []string{fmt.Sprintf("%d tokens", count)}
	if count == 1 {
		parts[0] = "1 token"
	}
	if decode := timings.Decode.AsDuration().Seconds(); count > 1 && decode > 0 {
		parts = append(parts, fmt.Sprintf("%.1f tokens/s", float64(count-1)/decode))
	}
	if timings.FirstToken != nil {
		milliseconds := timings.FirstToken.AsDuration().Seconds() * 1000
		parts = append(parts, fmt.Sprintf("first token after %.0f ms", milliseconds))
	}
	if speculation.Passes > 0 {
		parts = append(parts, fmt.Sprintf("%.2f tokens per pass", speculation.TokensPerPass))
	}
	if speculation.Predicted > 0 {
		acceptance := 100 * float64(speculation.Accepted) / float64(speculation.Predicted)
		parts = append(parts, fmt.Sprintf("%.0f %% accepted", acceptance))
	} else {
		parts = append(parts, "no predictions")
	}
	reason := strings.TrimPrefix(finished.Reason.String(), "FINISH_REASON_")
	parts = append(parts, "ended by "+strings.ToLower(strings.ReplaceAll(reason, "_", " ")))
	return strings.Join(parts, " · ")
}

// explain returns the lines that tell a person what is wrong: one per bad field, or else the status.
func explain(err error) []string {
	var failure *outrider.Error
	if !errors.As(err, &failure) || len(failure.Violations) == 0 {
		return []string{err.Error()}
	}
	var lines []string
	for _, violation := range failure.Violations {
		lines = append(lines, violation.Field+": "+violation.Description)
	}
	return lines
}
