// Registers a phone's activity and sends it a goal.
//
//	goal --print              prints the records: topic, key and value in each line
//	goal BOOTSTRAP_SERVERS    writes the records to Kafka
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/confluentinc/confluent-kafka-go/kafka"
)

const app = "com.example.match"
const secondsFrom1970To2001 = 978_307_200

// Registration is the record that the app's server writes when the app reports a token.
type Registration struct {
	App             string `json:"app"`
	Activity        string `json:"activity"`
	Token           string `json:"token"`
	Environment     string `json:"environment"`
	RegisteredAt    int64  `json:"registeredAt"`
	FrequentUpdates bool   `json:"frequentUpdates"`
}

// ContentState has the same fields as the app's ContentState in Swift.
type ContentState struct {
	Home int `json:"home"`
	Away int `json:"away"`
	// A Date in Swift. The app's JSONDecoder reads it as seconds since 2001. Apple's own keys in aps are UNIX seconds.
	KickOff int64 `json:"kickOff"`
}

// Alert makes the phone play a sound and light up its screen.
type Alert struct {
	Title string `json:"title"`
	Body  string `json:"body"`
	Sound string `json:"sound,omitempty"`
}

// Aps is Apple's aps dictionary.
type Aps struct {
	Event        string       `json:"event"`
	Timestamp    int64        `json:"timestamp"`
	StaleDate    int64        `json:"stale-date,omitempty"`
	ContentState ContentState `json:"content-state"`
	Alert        *Alert       `json:"alert,omitempty"`
}

// Command brings a new state to an activity.
type Command struct {
	App      string `json:"app"`
	Activity string `json:"activity"`
	ID       string `json:"id,omitempty"`
	Aps      Aps    `json:"aps"`
}

type record struct {
	topic, key string
	value      any
}

func records(now int64) []record {
	activity := "final-phone-21"
	return []record{
		{"causeway.registrations", activity, Registration{
			App: app, Activity: activity, Token: "5c1e0a77b2d4f839", Environment: "production",
			RegisteredAt: now * 1000, FrequentUpdates: true,
		}},
		{"causeway.commands", activity, Command{
			App: app, Activity: activity, ID: "goal-1-0",
			Aps: Aps{
				Event: "update", Timestamp: now, StaleDate: now + 600,
				ContentState: ContentState{Home: 1, Away: 0, KickOff: now - 1020 - secondsFrom1970To2001},
				Alert:        &Alert{Title: "Goal for Rovers", Body: "1:0", Sound: "default"},
			},
		}},
	}
}

func send(servers string) error {
	// All producers of a topic need the same partitioner.
	producer, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": servers, "enable.idempotence": true, "partitioner": "murmur2_random",
	})
	if err != nil {
		return err
	}
	defer producer.Close()
	reports := make(chan kafka.Event, 2)
	for _, record := range records(time.Now().Unix()) {
		value, err := json.Marshal(record.value)
		if err != nil {
			return err
		}
		message := &kafka.Message{
			TopicPartition: kafka.TopicPartition{Topic: &record.topic, Partition: kafka.PartitionAny},
			Key:            []byte(record.key), Value: value,
		}
		if err := producer.Produce(message, reports); err != nil {
			return err
		}
		report, isMessage := (<-reports).(*kafka.Message)
		if !isMessage || report.TopicPartition.Error != nil {
			return fmt.Errorf("not written: %v", report)
		}
	}
	return nil
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: goal --print | BOOTSTRAP_SERVERS")
		os.Exit(64)
	}
	if os.Args[1] == "--print" {
		for _, record := range records(1790000000) {
			value, err := json.Marshal(record.value)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Printf("%s\t%s\t%s\n", record.topic, record.key, value)
		}
		return
	}
	if err := send(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
