import Kafka

/// One librdkafka property, as its configuration page names and writes it.
package struct KafkaProperty: Sendable, Equatable {
    package var name: String
    /// May be a password: never print it.
    package var value: String

    package init(name: String, value: String) {
        self.name = name
        self.value = value
    }
}

extension KafkaProperty: CustomStringConvertible, CustomDebugStringConvertible {
    /// The name alone, so that no password is printed by accident.
    package var description: String { "\(name)=…" }
    package var debugDescription: String { description }
}

/// A property whose value is what a file holds, so that a secret stands in no configuration.
package struct KafkaPropertyFile: Sendable, Equatable {
    /// The longest file that is taken for a value: a chain of certificates fits.
    package static let bytesMax = 65_536

    package var name: String
    package var path: String

    package init(name: String, path: String) {
        self.name = name
        self.path = path
    }

    /// The whole file without the line's end at its end, which editors add and no password has.
    ///
    /// - Throws: an error that names the property and the file.
    package func value() throws(KafkaError) -> String {
        do throws(SecretFileError) {
            return try SecretFile.text(path, bytesMax: Self.bytesMax)
        } catch {
            throw KafkaError.property(name, "kafka.propertyFiles: \(error)")
        }
    }
}

extension WorkerConfiguration.Kafka {
    /// What the consumer is made with: the servers and the group first, so that a `consumer` property is the last word. Its
    /// statistics say whether a broker is there.
    ///
    /// - Throws: which property's file cannot be read.
    package var consumerProperties: [(name: String, value: String)] {
        get throws(KafkaError) {
            try [
                ("bootstrap.servers", bootstrapServers), ("group.id", groupId), ("statistics.interval.ms", "2000"),
            ] + shared() + Self.pairs(consumer)
        }
    }

    /// What the producer is made with. Only the commit waits for a result, never a push, so results linger for large batches: at
    /// 12,000 a second that is most of what they cost.
    ///
    /// - Throws: which property's file cannot be read.
    package var producerProperties: [(name: String, value: String)] {
        get throws(KafkaError) {
            try [("bootstrap.servers", bootstrapServers), ("linger.ms", "50")] + shared() + Self.pairs(producer)
        }
    }

    private func shared() throws(KafkaError) -> [(name: String, value: String)] {
        var all = Self.pairs(properties)
        for file in propertyFiles { all.append((file.name, try file.value())) }
        return all
    }

    private static func pairs(_ properties: [KafkaProperty]) -> [(name: String, value: String)] {
        properties.map { ($0.name, $0.value) }
    }
}
