// Decodes manifests as kubectl does, for comparison: kubectl's own decoder is a function of apimachinery.
package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// One text's objects, or the error. Objects before an error are omitted, since kubectl does not apply them either.
type answer struct {
	Objects []json.RawMessage `json:"objects"`
	Error   string            `json:"error,omitempty"`
}

// The number of bytes from which kubectl distinguishes JSON from YAML (cli-runtime, resource/visitor.go).
const bufferSize = 4096

// Reads an array of texts from standard input, and writes an array of answers.
func main() {
	var texts [][]byte
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		log.Fatal(err)
	}
	answers := make([]answer, 0, len(texts))
	for _, text := range texts {
		answers = append(answers, decode(text))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

func decode(text []byte) answer {
	objects := []json.RawMessage{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), bufferSize)
	for {
		var next runtime.RawExtension
		err := decoder.Decode(&next)
		if err == io.EOF {
			return answer{Objects: objects}
		}
		if err != nil {
			return answer{Error: err.Error()}
		}
		raw := bytes.TrimSpace(next.Raw)
		if len(raw) != 0 && !bytes.Equal(raw, []byte("null")) {
			objects = append(objects, json.RawMessage(raw))
		}
	}
}
