import Kafka

/// Tells the person at the terminal that no Kafka broker answers, after a few seconds and with the reason. librdkafka itself only waits.
///
/// Belongs to one client, which holds it weakly. Used by one thread at a time: the one that polls the client.
package final class BrokerContact: ClientLogHandler, @unchecked Sendable {
    /// How long a broker may take to answer before the user gets a message.
    package static let patienceMilliseconds: Int64 = 2_500

    private let command: String
    /// The addresses of the brokers, separated by commas.
    package let servers: String
    private let startMilliseconds = Clock.milliseconds
    private var lastReason = "no answer"
    private var isMet = false
    private var isTold = false

    /// - Parameters:
    ///   - command: begins each message, such as `causeway send`.
    ///   - properties: the client's.
    package init(of command: String, properties: [KafkaProperties.Property]) {
        self.command = command
        servers = properties.last { Self.serverProperties.contains($0.name) }?.value ?? ""
    }

    private static let serverProperties = ["bootstrap.servers", "metadata.broker.list"]

    /// Call it regularly while waiting.
    ///
    /// - Parameter hasMetBroker: whether the client has had an answer from a broker. Asked at most once after each failure.
    package func check(_ hasMetBroker: @autoclosure () -> Bool) {
        guard !isMet, !isTold, Clock.milliseconds - startMilliseconds >= Self.patienceMilliseconds else { return }
        isMet = hasMetBroker()
        guard !isMet else { return }
        isTold = true
        StandardStreams.printError("\(command): no Kafka broker answers at \(servers) (\(lastReason)); still trying")
    }

    /// What to say in the end if the client has never had an answer; nil if it has.
    package func failure(_ hasMetBroker: @autoclosure () -> Bool) -> String? {
        guard !isMet, !hasMetBroker() else { return nil }
        let seconds = (Clock.milliseconds - startMilliseconds + 500) / 1_000
        return "no Kafka broker answered at \(servers) within \(seconds) s (\(lastReason))"
    }

    /// The same as an error.
    package var error: KafkaError { KafkaError.noBroker(failure(false) ?? "") }

    package func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) {}

    package func clientFailed(_ error: KafkaError) {
        if !error.areAllBrokersDown { lastReason = Self.cause(in: error.reason) }
    }

    package func clientStatistics(json: UnsafeRawBufferPointer) {}

    /// The cause in a text such as `h:1/bootstrap: Connect to ipv4#192.0.2.1:1 failed: Connection refused (after 0ms in state CONNECT)`.
    static func cause(in reason: String) -> String {
        let end = reason.firstRange(of: " (after ")?.lowerBound ?? reason.endIndex
        let text = reason[..<end]
        // The name of the broker, then what failed, then why.
        let parts = text.split(separator: ": ")
        guard parts.count > 1 else { return String(text) }
        let isPlain = parts.count > 2 && (parts[1].hasPrefix("Connect to ") || parts[1].hasPrefix("Failed to resolve "))
        return parts.dropFirst(isPlain ? 2 : 1).joined(separator: ": ")
    }
}
