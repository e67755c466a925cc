import Kafka

/// Prints a message with the reason if no Kafka broker has responded after 2.5 s. Without it, a user would see nothing,
/// because librdkafka keeps trying silently.
///
/// Each client has its own monitor, which is used only on the thread that polls the client. The client's reference to
/// it is weak, so the caller must keep the monitor as long as the client.
package final class BrokerMonitor: ClientEventHandler, @unchecked Sendable {
    /// How long a broker may take to respond before the message is printed.
    package static let warningDelayMilliseconds: Int64 = 2_500

    private let command: String
    /// The addresses of the brokers, separated by commas.
    package let brokerAddresses: String
    private let startedAtMilliseconds = Clock.monotonicMilliseconds
    private var lastFailureReason = "no response"
    private var wasBrokerReached = false
    private var hasPrintedMessage = false

    /// - Parameters:
    ///   - command: the program and its command, such as `causeway send`. The message that ``printIfUnreached(_:)``
    ///     prints begins with them; the text of ``failureReason(_:)`` does not.
    ///   - properties: the client's properties, which contain the brokers' addresses.
    package init(of command: String, properties: [KafkaProperties.Property]) {
        self.command = command
        brokerAddresses = properties.last { Self.addressPropertyNames.contains($0.name) }?.value ?? ""
    }

    private static let addressPropertyNames = ["bootstrap.servers", "metadata.broker.list"]

    /// Prints the message, at most once, if no broker has responded within ``warningDelayMilliseconds``. Call this
    /// regularly while waiting for a broker.
    ///
    /// - Parameter hasReachedBroker: whether a broker has responded to the client. Evaluated only when the message is
    ///   due.
    package func printIfUnreached(_ hasReachedBroker: @autoclosure () -> Bool) {
        guard !wasBrokerReached, !hasPrintedMessage,
            Clock.monotonicMilliseconds - startedAtMilliseconds >= Self.warningDelayMilliseconds
        else {
            return
        }
        wasBrokerReached = hasReachedBroker()
        guard !wasBrokerReached else { return }
        hasPrintedMessage = true
        StandardStreams.printError(
            "\(command): no Kafka broker responds at \(brokerAddresses) (\(lastFailureReason)); still trying"
        )
    }

    /// Returns an error message if no broker has ever responded; nil if one has.
    package func failureReason(_ hasReachedBroker: @autoclosure () -> Bool) -> String? {
        guard !wasBrokerReached, !hasReachedBroker() else { return nil }
        let seconds = (Clock.monotonicMilliseconds - startedAtMilliseconds + 500) / 1_000
        return "no Kafka broker responded at \(brokerAddresses) within \(seconds) s (\(lastFailureReason))"
    }

    /// The error for a client to which no broker has responded.
    package var noBrokerError: KafkaError { KafkaError.noBroker(failureReason(false) ?? "") }

    package func clientLogged(level: Int32, facility: UnsafeRawBufferPointer, message: UnsafeRawBufferPointer) {}

    package func clientReportedError(_ error: KafkaError) {
        if !error.areAllBrokersDown { lastFailureReason = Self.extractCause(from: error.reason) }
    }

    package func clientReportedStatistics(json: UnsafeRawBufferPointer) {}

    /// Extracts the cause from a text of librdkafka. For example, it is `Connection refused` in `h:1/bootstrap: Connect
    /// to ipv4#192.0.2.1:1 failed: Connection refused (after 0ms in state CONNECT)`.
    static func extractCause(from reason: String) -> String {
        let end = reason.firstRange(of: " (after ")?.lowerBound ?? reason.endIndex
        let text = reason[..<end]
        // The parts are the broker's name, in some texts the step that failed, and the cause.
        let parts = text.split(separator: ": ")
        guard parts.count > 1 else { return String(text) }
        let hasStep = parts.count > 2 && (parts[1].hasPrefix("Connect to ") || parts[1].hasPrefix("Failed to resolve "))
        return parts.dropFirst(hasStep ? 2 : 1).joined(separator: ": ")
    }
}
