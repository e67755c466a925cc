import Numbers

struct FanoutFigures: Codable, Equatable, RunFigures {
    var memberCount: Int
    var workerCount: Int
    /// The share of the members, in per cent, that the first command had reached when the second one was sent. Nil:
    /// there was only one command.
    var overtakenAtPercent: Int?
    /// The time from the first registration's record until all registrations were settled.
    var joinSeconds: Double
    /// CPU time of redis-server for the registration of one member, which changes the activity's value and a page of
    /// members.
    var redisMicrosecondsPerJoin: Double
    /// Redis' memory for the audience's hash, its pages of members and its directories (lists of a segment's pages),
    /// divided by the number of members. Keys are included.
    var redisBytesPerMember: Double
    /// The time from the last command's record until the last phone shows that command's state.
    var fanoutSeconds: Double
    /// Pushes to the audience's members that reached their phones.
    var pushCount: Int
    /// CPU time of all workers from the first command to the last result, divided by `pushCount`. It includes the work
    /// for single commands, although `pushCount` does not.
    var workerCPUMicrosecondsPerPush: Double
    var redisCPUMicrosecondsPerPush: Double
    /// CPU time of h2load for one push with the command's body: the mean of the runs before and after the fan-out. Nil:
    /// h2load did not run.
    var h2loadMicrosecondsPerPush: Double?
    /// The highest peak of resident memory of any worker since the first command.
    var workerPeakMemoryBytes: Int64
    /// The freshness of single commands to phones outside the audience before the fan-out; nil: there were no single
    /// commands.
    var singleCommandsBeforeFanout: SingleCommandLoad.Freshness?
    /// The freshness of single commands to phones outside the audience during the fan-out; nil: there were no single
    /// commands.
    var singleCommandsDuringFanout: SingleCommandLoad.Freshness?
    /// The number of the audience's result records since the first command.
    var resultRecordCount: Int
    /// The outcomes of the commands, in the order of the commands.
    var outcomes: [String]
    /// Whether the results of each command count all members (`FanoutResults.memberCountsAddUp`).
    var resultsAddUp: Bool
    /// Phones that do not show the newest state.
    var staleScreenPhoneCount: Int
    /// Phones that got an old push: it was older than the state that they showed.
    var outdatedPushPhoneCount: Int
    var repeatedAlertPhoneCount: Int
    /// Phones on which the alert of the first command did not ring: the number of members minus the number of alerts
    /// that rang.
    var unalertedPhoneCount: Int

    /// The keys in the JSON. A key stays as it is when its property is renamed.
    private enum CodingKeys: String, CodingKey {
        case memberCount = "members"
        case workerCount = "workers"
        case overtakenAtPercent, joinSeconds, redisMicrosecondsPerJoin, redisBytesPerMember
        case fanoutSeconds = "seconds"
        case pushCount = "pushes"
        case workerCPUMicrosecondsPerPush, redisCPUMicrosecondsPerPush, h2loadMicrosecondsPerPush
        case workerPeakMemoryBytes
        case singleCommandsBeforeFanout = "singleBefore"
        case singleCommandsDuringFanout = "singleDuring"
        case resultRecordCount = "resultRecords"
        case outcomes, resultsAddUp
        case staleScreenPhoneCount = "wrong"
        case outdatedPushPhoneCount = "reversed"
        case repeatedAlertPhoneCount = "alertedTwice"
        case unalertedPhoneCount = "unalerted"
    }

    /// The maximum number of results of a command: 256 for its ranges, and one for the command itself.
    static let resultsPerCommandMax = 257

    var hasSucceeded: Bool {
        staleScreenPhoneCount == 0 && outdatedPushPhoneCount == 0 && repeatedAlertPhoneCount == 0
            && unalertedPhoneCount == 0 && resultsAddUp
            && resultRecordCount <= Self.resultsPerCommandMax * outcomes.count
    }

    var report: String {
        let overtakenText = overtakenAtPercent.map { ", overtaken at \($0) %" } ?? ""
        let h2loadText = h2loadMicrosecondsPerPush.map { ", h2load \(decimalText($0)) µs a push" } ?? ""
        return """
            \(Numeral.grouped(memberCount)) members, \
            \(workerCount == 1 ? "one worker" : "\(workerCount) workers")\(overtakenText): \(outcomes.joined(separator: ", ")) \
            in \(decimalText(fanoutSeconds)) s
            \(Numeral.grouped(pushCount)) pushes; \(Numeral.grouped(resultRecordCount)) result \
            records\(resultsAddUp ? "" : ", which do not add up")
            CPU time of the worker \(decimalText(workerCPUMicrosecondsPerPush)) µs a push\(h2loadText), redis-server \
            \(decimalText(redisCPUMicrosecondsPerPush)) µs
            memory of the worker \(Numeral.mebibytes(workerPeakMemoryBytes)) at its peak, of a member in Redis \
            \(decimalText(redisBytesPerMember)) bytes
            \(singleCommandsText)joined in \(decimalText(joinSeconds)) s, \(decimalText(redisMicrosecondsPerJoin)) µs \
            of redis-server each
            \(Numeral.grouped(memberCount - staleScreenPhoneCount)) of \(Numeral.grouped(memberCount)) phones show the \
            newest state; \(Numeral.grouped(outdatedPushPhoneCount)) went back in time, \
            \(Numeral.grouped(repeatedAlertPhoneCount)) got an alert twice, \(Numeral.grouped(unalertedPhoneCount)) got none
            """
    }

    private var singleCommandsText: String {
        guard let singleCommandsBeforeFanout, let singleCommandsDuringFanout else { return "" }
        return """
            single commands: half within \(singleCommandsBeforeFanout.p50Milliseconds) ms, 99 of 100 within \
            \(singleCommandsBeforeFanout.p99Milliseconds) ms; beside the round \
            \(singleCommandsDuringFanout.p50Milliseconds) and \
            \(singleCommandsDuringFanout.p99Milliseconds) ms \
            (\(Numeral.grouped(singleCommandsDuringFanout.commands)) commands)

            """
    }

    private func decimalText(_ value: Double) -> String {
        guard value.isFinite, value.magnitude < 1e12 else { return "?" }
        return Numeral.twoDecimals(hundredths: Int((value * 100).rounded()))
    }
}
