// Command outrider continues a prompt and prints the text as it streams, then what it cost.
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
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	outriderv1 "outrider/v1"
)

//go:generate protoc -I ../../protos --go_out=. --go_opt=module=outrider --go-grpc_out=. --go-grpc_opt=module=outrider outrider/v1/common.proto outrider/v1/generation.proto

const (
	failed      = 1
	wrongUsage  = 2
	interrupted = 130 // as shells report a process that SIGINT ended
)

var local = regexp.MustCompile(`^(unix:|localhost:|127\.\d+\.\d+\.\d+:|\[::1\]:)`)

func main() {
	var files credentialFiles
	address, request := readArguments(&files)
	security, err := files.security()
	var connection *grpc.ClientConn
	ctx := context.Background()
	if err == nil {
		ctx, err = files.withToken(ctx, address)
	}
	if err == nil {
		// Newer releases of grpc-go prefer NewClient, but they keep Dial throughout 1.x, and the releases that
		// distributions ship have only that.
		connection, err = grpc.Dial(address, security)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(wrongUsage)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	finished, err := printText(ctx, outriderv1.NewGenerationServiceClient(connection), request)
	stop()
	connection.Close()

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

// credentialFiles names what to trust, and what to show.
type credentialFiles struct {
	authorities, certificate, key, token string
}

// security returns TLS where there are authorities to trust, else clear text; a certificate of ours goes with its key.
func (files *credentialFiles) security() (grpc.DialOption, error) {
	if files.authorities == "" {
		if files.certificate != "" || files.key != "" {
			return nil, errors.New("--tls-cert and --tls-key need --tls-ca")
		}
		return grpc.WithInsecure(), nil // newer releases prefer insecure.NewCredentials, which older ones do not have
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
	return grpc.WithTransportCredentials(credentials.NewTLS(config)), nil
}

// withToken returns a context whose calls show the token, if there is one: over TLS, or to this machine only.
func (files *credentialFiles) withToken(ctx context.Context, address string) (context.Context, error) {
	if files.token == "" {
		return ctx, nil
	}
	if files.authorities == "" && !local.MatchString(address) {
		return nil, errors.New("a token is sent over TLS only, or to this machine")
	}
	token, err := os.ReadFile(files.token)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strings.TrimSpace(string(token))), err
}

// readArguments returns the address and the request. A field whose flag is not given stays unset, so that the
// server's default holds.
func readArguments(files *credentialFiles) (string, *outriderv1.StreamGenerateRequest) {
	sampling, stop := &outriderv1.SamplingParameters{}, &outriderv1.StopConditions{}
	address := flag.String("address", "localhost:50051", "`HOST:PORT` of the server")
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
	prompt := &outriderv1.Prompt{Input: &outriderv1.Prompt_Text{Text: flag.Arg(0)}}
	return *address, &outriderv1.StreamGenerateRequest{Prompt: prompt, Sampling: sampling, Stop: stop}
}

// printText prints the text of a generation as it arrives and returns the last message.
func printText(
	ctx context.Context, client outriderv1.GenerationServiceClient, request *outriderv1.StreamGenerateRequest,
) (*outriderv1.Finished, error) {
	stream, err := client.StreamGenerate(ctx, request)
	if err != nil {
		return nil, err
	}
	var finished *outriderv1.Finished
	hasText := false
	print := func(text string) {
		fmt.Print(text)
		hasText = hasText || text != ""
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			if hasText {
				fmt.Println()
			}
			if !errors.Is(err, io.EOF) {
				return nil, err
			}
			if finished == nil {
				return nil, status.Error(codes.DataLoss, "the server ended the stream early")
			}
			return finished, nil
		}
		switch event := response.Event.(type) {
		case *outriderv1.StreamGenerateResponse_Chunk:
			print(event.Chunk.Text)
		case *outriderv1.StreamGenerateResponse_Finished:
			finished = event.Finished
			print(finished.Text)
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
	failure := status.Convert(err)
	var lines []string
	for _, detail := range failure.Details() {
		if badRequest, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range badRequest.FieldViolations {
				lines = append(lines, violation.Field+": "+violation.Description)
			}
		}
	}
	if lines == nil {
		lines = []string{fmt.Sprintf("%v: %s", failure.Code(), failure.Message())}
	}
	return lines
}
