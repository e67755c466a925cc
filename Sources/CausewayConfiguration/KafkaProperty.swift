import Kafka

/// One librdkafka property, with librdkafka's own name and spelling.
package struct KafkaProperty: Sendable, Equatable {
    package var name: String
    /// The property's value. It may be a password, so never print it.
    package var value: String

    package init(name: String, value: String) {
        self.name = name
        self.value = value
    }
}

extension KafkaProperty: CustomStringConvertible, CustomDebugStringConvertible {
    /// The name without the value, so that no password is printed by accident.
    package var description: String { "\(name)=…" }
    package var debugDescription: String { description }
}

/// A property with its value in a file, so that no secret is in the configuration.
package struct PropertyValueFile: Sendable, Equatable {
    /// The largest file that is read as a value: large enough for a chain of certificates.
    package static let bytesMax = 65_536

    package var name: String
    package var path: String

    package init(name: String, path: String) {
        self.name = name
        self.path = path
    }

    /// Reads the value: the whole file, without a line end at its end.
    ///
    /// A client gets its properties when it is created, and keeps them. So a replaced file takes effect only at the
    /// worker's next start.
    ///
    /// - Throws: an error that names the property and the file.
    package func readValue() throws(KafkaError) -> String {
        do throws(SecretFileError) {
            return try SecretFile.readText(path, bytesMax: Self.bytesMax)
        } catch {
            throw KafkaError.unusableProperty(name, "kafka.propertyFiles: \(error)")
        }
    }
}

extension WorkerConfiguration.Kafka {
    /// All properties of the consumer. If a name occurs twice, the later value counts. So `kafka.consumer` comes last:
    /// its properties override those for all clients.
    ///
    /// `statistics.interval.ms` makes librdkafka report statistics every 2 s. They show the worker whether a broker
    /// responds.
    ///
    /// - Throws: an error that names the property whose file cannot be read.
    package var consumerProperties: [(name: String, value: String)] {
        get throws(KafkaError) {
            try [
                ("bootstrap.servers", bootstrapServers), ("group.id", groupId), ("statistics.interval.ms", "2000"),
            ] + readCommonProperties() + Self.namesAndValues(of: consumer)
        }
    }

    /// All properties of the producer.
    ///
    /// With `linger.ms`, a record waits up to 50 ms, so that more records travel in one batch. At 12,000 results a
    /// second, large batches save most of the cost. The wait delays no push. It delays deferred and other records that
    /// workers read again, and offset commits, because a record settles only when Kafka has its result (R9).
    ///
    /// `batch.size` limits the bytes of a batch before its compression. Kafka refuses all records of a batch that is
    /// above the topic's `max.message.bytes`. This limit is 1,048,588 bytes by default, but some topics have less. A
    /// quarter of it is enough: at 12,000 results a second and with four partitions, a batch has about 100,000 bytes.
    ///
    /// - Throws: an error that names the property whose file cannot be read.
    package var producerProperties: [(name: String, value: String)] {
        get throws(KafkaError) {
            try [("bootstrap.servers", bootstrapServers), ("linger.ms", "50"), ("batch.size", "262144")]
                + readCommonProperties() + Self.namesAndValues(of: producer)
        }
    }

    private func readCommonProperties() throws(KafkaError) -> [(name: String, value: String)] {
        var all = Self.namesAndValues(of: properties)
        for file in propertyFiles { all.append((file.name, try file.readValue())) }
        return all
    }

    private static func namesAndValues(of properties: [KafkaProperty]) -> [(name: String, value: String)] {
        properties.map { ($0.name, $0.value) }
    }
}
