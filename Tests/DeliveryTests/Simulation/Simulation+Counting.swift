import Delivery
import LiveActivity

/// What the results of a run count: commands with a result, and superseded commands without one.
struct SimulatedCounting {
    /// The command of each record, by partition and offset.
    var commands: [SimulatedLog.Partition: [Int64: String]] = [:]
    /// How many records of the commands topic have a result, by activity.
    private(set) var resultCounts: [String: Int] = [:]
    /// How many superseded commands the results of newer commands count, by activity.
    private(set) var supersededCounts: [String: Int] = [:]
    private let trace = UnsafeMutableRawBufferPointer.allocate(byteCount: 1, alignment: 1)

    mutating func countResult(_ view: RecordView) {
        let activity = String(decoding: view.activity, as: UTF8.self)
        // If another command's token releases a held command, the held command gets a second result. Only its first
        // result, `held`, counts here.
        if view.sourceTopic == .commands, view.earlierResultCount == 0 { resultCounts[activity, default: 0] += 1 }
        supersededCounts[activity, default: 0] += view.supersededCount
    }

    /// Returns a trace for every fourth record. The core frees a record with a trace only when its spans are exported.
    func trace(of offset: Int64) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(trace)[..<(offset % 4 == 0 ? 1 : 0)])
    }
}

extension Simulation {
    /// Whether the result of a newer command may count this command as superseded. Then this command needs no result of
    /// its own.
    func mayBeCountedInNewerResult(_ command: String) -> Bool {
        !newerCommandsThatMayCount(command).isEmpty
    }

    /// Whether a commit may pass this record although its command has no result. True if a newer command may count this
    /// command, and the newer command has a result or will be read again.
    func mayCommitWithoutResult(_ offset: Int64, of partition: SimulatedLog.Partition) -> Bool {
        guard let command = counting.commands[partition]?[offset] else { return false }
        return newerCommandsThatMayCount(command)
            .contains { newer in
                if results[newer]?.isEmpty == false { return true }
                return counting.commands.contains { otherPartition, commands in
                    commands.contains { $0.value == newer && !isCommitted($0.key, of: otherPartition) }
                }
            }
    }

    /// The newer commands whose result may count this command. A command with an alert may only be counted by one that
    /// also has an alert. A start always needs a result of its own, so there are none for a start.
    private func newerCommandsThatMayCount(_ command: String) -> [String] {
        guard parameters.supersededResults != .each, !startCommands.contains(command), let version = versions[command],
            let hashIndex = command.lastIndex(of: "#")
        else {
            return []
        }
        let activity = String(command[..<hashIndex])
        let hasAlert = { (version: Version) in self.alertSequences[activity]?.contains(Int(version.sequence)) ?? false }
        return
            versions.filter { newer in
                newer.key.hasPrefix("\(activity)#") && newer.value > version
                    && (hasAlert(newer.value) || !hasAlert(version))
            }
            .map(\.key)
    }

    /// Checks that the results and counts of each activity add up to its commands, in runs that lose no worker,
    /// partition or acknowledgement. If each command must have a result (`SupersededResultMode.each`), no result may
    /// count others.
    func checkCounts() {
        if parameters.supersededResults == .each, let entry = counting.supersededCounts.first(where: { $0.value > 0 }) {
            violations.append("\(entry.key): commands were counted though each has a result")
        }
        // A command that is read again may have a second result.
        guard parameters.crashPerMille == 0, parameters.rebalancePerMille == 0,
            parameters.produceFailurePerMille == 0, parameters.lossesMax == 0
        else { return }
        var recordCountsByActivity: [String: Int] = [:]
        for command in counting.commands.filter({ $0.key.holdsCommands }).values.flatMap(\.values) {
            recordCountsByActivity[String(command.prefix { $0 != "#" }), default: 0] += 1
        }
        for (activity, count) in recordCountsByActivity.sorted(by: { $0.key < $1.key }) {
            let resultCount = counting.resultCounts[activity] ?? 0
            let supersededCount = counting.supersededCounts[activity] ?? 0
            if resultCount + supersededCount != count {
                violations.append(
                    "\(activity): \(resultCount) results and \(supersededCount) counted of \(count) commands"
                )
            }
        }
        let commandWithoutResultCount = workers.reduce(0) {
            $0 + ($1?.delivery.counters(of: 0).supersededWithoutResultCount ?? 0)
        }
        if commandWithoutResultCount != counting.supersededCounts.values.reduce(0, +) {
            violations.append("\(commandWithoutResultCount) commands without a result, but the results count others")
        }
    }
}
