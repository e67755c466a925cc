import Foundation
import Kafka

/// Reads the workers' results for the commands to the audience, and for the single commands.
final class FanoutResults: ConsumerHandler {
    /// The result of a whole command. The result of a fan-out is written when its last range is finished.
    struct CommandResult: Equatable {
        var outcome: String
        var reason: String?
        /// The number of members by outcome; empty if the command was not fanned out.
        var members: [String: Int]

        /// Returns why this result makes the run fail; nil for the outcomes `delivered` and `superseded`. A command may
        /// be `superseded`, because a newer command may overtake it.
        func failureText(commandIdentifier command: String) -> String? {
            guard outcome != "delivered", outcome != "superseded" else { return nil }
            let failure =
                members.isEmpty
                ? "the workers did not fan out command \(command)" : "command \(command) did not reach every member"
            return "\(failure): its outcome is \(outcome)\(reason.map { " (\($0))" } ?? "")"
        }
    }

    /// The number of results of the audience's commands, including results that cannot be read.
    private(set) var resultRecordCount = 0
    /// The single commands to phones outside the audience; nil: there are none.
    var singleCommandLoad: SingleCommandLoad?
    /// The results of whole commands, by the command's id.
    private(set) var commandResults: [String: CommandResult] = [:]
    /// By the command's id: how many members have each outcome, summed over the results of the command's ranges.
    private(set) var memberCountsOfRanges: [String: [String: Int]] = [:]
    private var consumer: Consumer?

    init(bootstrapServers: String) throws(LabError) {
        do throws(KafkaError) {
            consumer = try Consumer(
                properties: [
                    ("bootstrap.servers", bootstrapServers), ("group.id", "fanout-results"),
                    ("auto.offset.reset", "earliest"), ("session.timeout.ms", "6000"),
                    ("heartbeat.interval.ms", "1000"),
                ],
                topics: [ResultsReader.resultsTopic],
                handler: self
            )
        } catch {
            throw LabError("the results cannot be read: \(error)")
        }
    }

    func readArrivedRecords() throws(LabError) {
        guard let consumer else { return }
        while true {
            switch consumer.poll() {
            case .message(let message):
                guard let value = message.value else { continue }
                addRecord(Array(value))
            case .none: return
            case .partitionEnd: continue
            case .error(let error): if error.isFatal { throw LabError("the results cannot be read: \(error)") }
            }
        }
    }

    /// Counts one result: of a whole command to the audience, of one of its ranges, or of a single command.
    func addRecord(_ json: [UInt8]) {
        guard let result = try? JSONSerialization.jsonObject(with: Data(json)) as? [String: Any],
            let command = result["command"] as? String, let outcome = result["outcome"] as? String
        else {
            resultRecordCount += 1
            return
        }
        guard result["audience"] != nil else {
            singleCommandLoad?.countResult(command, outcome: outcome, times: result["times"] as? [String: Int64] ?? [:])
            return
        }
        resultRecordCount += 1
        let members = result["members"] as? [String: Int] ?? [:]
        guard result["segments"] == nil else {
            memberCountsOfRanges[command, default: [:]].merge(members, uniquingKeysWith: +)
            return
        }
        commandResults[command] = CommandResult(outcome: outcome, reason: result["reason"] as? String, members: members)
    }

    /// Whether the results of a command count each member once. For each outcome, the counts of the ranges must add up
    /// to the count in the result of the whole command. All counts in that result must add up to `memberCount`.
    func memberCountsAddUp(_ command: String, memberCount: Int) -> Bool {
        guard let result = commandResults[command], let memberCountsOfRanges = memberCountsOfRanges[command] else {
            return false
        }
        return memberCountsOfRanges == result.members && result.members.values.reduce(0, +) == memberCount
    }

    func close() {
        _ = consumer?.close(timeoutMilliseconds: 1_000)
        consumer = nil
    }

    func partitionsAssigned(_ partitions: [TopicPartition]) {}

    func partitionsRevoked(_ partitions: [TopicPartition], areLost: Bool) {}
}
