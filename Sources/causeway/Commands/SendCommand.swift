import ArgumentParser
import CausewayCommandLine
import CausewayConfiguration
import Foundation
import Kafka
import LiveActivity

/// `causeway send`: sends records from files to Kafka.
struct SendCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send",
        abstract: "Send commands or registrations from files to Kafka.",
        discussion: """
            A file contains JSON records; a record may have one line or several. - is standard input. The key of a \
            record is its audience; if it has none, its activity, channel or device. The key of a device's \
            registration also has the attributes type: device/attributesType. Invalid records are sent, too, and \
            counted on standard error; causeway check prints their errors.

            Examples:
              causeway send --bootstrap-servers 127.0.0.1:9092 --registrations tokens.jsonl
              causeway send --bootstrap-servers 127.0.0.1:9092 --now goal.json
              causeway send -c causeway.yaml -n 10000 --rate 500 --now updates.jsonl
              producer | causeway send --bootstrap-servers 127.0.0.1:9092 -

            Prints: 10 sent, 10 acknowledged, 0 failed, 0.013 s. The exit code is 1 if a record failed.
            """
    )

    @Argument(help: ArgumentHelp("Files of records, or - for standard input.", valueName: "file"))
    var files: [String] = ["-"]

    @OptionGroup var brokers: BrokerOptions

    @Option(
        name: [.customShort("X"), .long],
        help: ArgumentHelp("A librdkafka property of the producer. Repeatable.", valueName: "name=value")
    )
    var property: [String] = []

    @Option(name: .shortAndLong, help: ArgumentHelp("The topic. Default: the commands topic.", valueName: "name"))
    var topic: String?

    @Flag(help: "Send to the registrations topic.")
    var registrations = false

    @Option(
        name: [.customShort("n"), .long],
        help: "Send this many records: repeat the input, or send only its beginning."
    )
    var count: Int?

    @Option(help: ArgumentHelp("Records per second. Default: as fast as Kafka accepts them.", valueName: "number"))
    var rate: Double?

    @Flag(
        help: """
            Set aps.timestamp of each command to the current time, and sequence to a number within the second. Then a \
            command that was sent before is not a duplicate.
            """
    )
    var now = false

    func validate() throws {
        guard topic?.isEmpty != true else { throw ValidationError("--topic: the name is empty") }
        guard topic == nil || !registrations else {
            throw ValidationError("use only one of --topic and --registrations")
        }
        guard count.map({ $0 > 0 }) ?? true else { throw ValidationError("--count must be at least 1") }
        guard rate.map({ $0 > 0 && $0.isFinite }) ?? true else { throw ValidationError("--rate must be above 0") }
        _ = try parsePropertyOptions()
    }

    func run() throws {
        let kafka = try brokers.loadKafkaConfiguration()
        let producer: Producer
        let brokerMonitor: BrokerMonitor
        do {
            let properties = try Self.deliveryTimeoutProperties + kafka.producerProperties + parsePropertyOptions()
            brokerMonitor = BrokerMonitor(of: "causeway send", properties: properties)
            producer = try Producer(properties: properties, eventHandler: brokerMonitor)
        } catch {
            StandardStreams.printError("causeway send: \(error)")
            throw ExitCode.configurationFault
        }
        var sender = try RecordSender(
            producer: producer,
            topic: topic ?? (registrations ? kafka.topics.registrations : kafka.topics.commands),
            recordsPerSecond: rate,
            brokerMonitor: brokerMonitor
        )
        var invalidCount = 0
        let inputFailure = Result { try sendFiles(&sender, invalidCount: &invalidCount) }
        let tally = sender.flushAndClose()
        let seconds = String(format: "%.3f", sender.elapsedSeconds)
        StandardStreams.printOutput(
            """
            \(tally.attemptedCount) sent, \(tally.acknowledgedCount) acknowledged, \(tally.failedCount) failed, \
            \(seconds) s
            """
        )
        if invalidCount > 0 {
            let kind = registrations ? "registration" : "command"
            let text = invalidCount == 1 ? "is not a valid \(kind)" : "are not valid \(kind)s"
            StandardStreams.printError(
                """
                causeway send: \(invalidCount) of the records \(text); causeway check --\(kind)s FILE prints \
                \(invalidCount == 1 ? "its" : "their") errors
                """
            )
        }
        if let reason = tally.failureReason { StandardStreams.printError("causeway send: \(reason)") }
        if case .failure(let error) = inputFailure { StandardStreams.printError("causeway send: \(error)") }
        guard tally.failedCount == 0, case .success = inputFailure else { throw ExitCode.failure }
    }

    /// How long Kafka may take to acknowledge a record. It is shorter than a worker's 120 s (`KafkaProperties`),
    /// because a user waits. The configuration and `--property` can change it.
    private static let deliveryTimeoutProperties = [(name: "delivery.timeout.ms", value: "30000")]

    /// Sends the records of the files, each once. With `--count`, sends this number of records instead. If the files
    /// have fewer records, begins again with the first one.
    ///
    /// - Parameter invalidCount: raised by 1 for each record that is not a valid command or registration. With
    ///   `--topic`, no record is checked.
    private func sendFiles(_ sender: inout RecordSender, invalidCount: inout Int) throws {
        var timestampUpdater = TimestampUpdater()
        func withCurrentTime(_ record: [UInt8]) -> [UInt8] {
            guard now else { return record }
            return timestampUpdater.withCurrentTimestamp(
                record,
                unixMicroseconds: Int64(Date().timeIntervalSince1970 * 1_000_000)
            )
        }
        guard let count else {
            for file in files {
                try InputFile(path: file).forEachRecord { send(withCurrentTime($0.bytes), &sender, &invalidCount) }
            }
            return
        }
        var records: [[UInt8]] = []
        for file in files where records.count < count {
            try InputFile(path: file).forEachRecord { records.append($0.bytes) }
        }
        guard !records.isEmpty else { return }
        for index in 0..<count {
            send(withCurrentTime(records[index % records.count]), &sender, &invalidCount)
        }
    }

    private func send(_ record: [UInt8], _ sender: inout RecordSender, _ invalidCount: inout Int) {
        if topic == nil, !isValid(record) { invalidCount += 1 }
        sender.send(record)
    }

    private func isValid(_ record: [UInt8]) -> Bool {
        record.withUnsafeBytes { bytes in
            registrations
                ? (try? Registration.decode(bytes)) != nil : (try? Command.decodeIgnoringBodyLimit(bytes)) != nil
        }
    }

    /// Parses the options `--property name=value`: properties of librdkafka.
    private func parsePropertyOptions() throws(ValidationError) -> [(name: String, value: String)] {
        try property.map { text throws(ValidationError) in
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2, !parts[0].isEmpty else {
                throw ValidationError("--property \(parts[0]): must be name=value")
            }
            return (name: String(parts[0]), value: String(parts[1]))
        }
    }
}
