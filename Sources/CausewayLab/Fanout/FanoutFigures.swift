import Numbers

struct FanoutFigures: Codable, Equatable, RunFigures {
    var members: Int
    var workers: Int
    /// The per cent of the members that the first command had reached when the second one was sent; nil: there was one
    /// command.
    var overtakenAtPercent: Int?
    /// The time from the first registration's record until the last registration was settled.
    var joinSeconds: Double
    /// CPU time of redis-server for the registration of one member, which changes the activity's value and a
    /// page of members.
    var redisMicrosecondsPerJoin: Double
    /// Bytes in Redis of the audience's hash, its pages of members and its directories, including keys, divided by the
    /// number of members. A directory lists the pages of one segment.
    var redisBytesPerMember: Double
    /// The time from the last command's record until the last phone shows that command's state.
    var seconds: Double
    /// Pushes to members of the audience that reached their phones.
    var pushes: Int
    /// CPU time of all workers from the first command until all results have arrived, divided by `pushes`. The time
    /// includes the work for single commands, although `pushes` does not count them.
    var workerCPUMicrosecondsPerPush: Double
    var redisCPUMicrosecondsPerPush: Double
    /// CPU time of h2load for a push with the command's body to the simulated APNs: the mean of the runs before and
    /// after the fan-out. Nil: h2load did not run.
    var h2loadMicrosecondsPerPush: Double?
    /// The peak of resident memory since the command, of the worker with the highest peak.
    var workerPeakMemoryBytes: Int64
    /// The freshness of single commands to other phones before the fan-out; nil: there were no single commands.
    var singleBefore: SingleCommandLoad.Freshness?
    /// The freshness of single commands to other phones during the fan-out; nil: there were no single commands.
    var singleDuring: SingleCommandLoad.Freshness?
    /// The number of the audience's result records since the first command.
    var resultRecords: Int
    /// The outcomes of the commands, in the order of the commands.
    var outcomes: [String]
    /// Whether the ranges' counts add up to the commands' counts, and the commands' counts to the number of
    /// members.
    var resultsAddUp: Bool
    /// Phones that do not show the newest state.
    var wrong: Int
    /// Phones that got a state older than the one that they showed.
    var reversed: Int
    var alertedTwice: Int
    /// Phones that did not get the alert of the goal: the members minus all alerts that rang.
    var unalerted: Int

    /// The maximum number of results of a command: one for each of at most 256 ranges, and one for the command.
    static let resultsPerCommandMax = 257

    var hasSucceeded: Bool {
        wrong == 0 && reversed == 0 && alertedTwice == 0 && unalerted == 0 && resultsAddUp
            && resultRecords <= Self.resultsPerCommandMax * outcomes.count
    }

    var text: String {
        let overtakenText = overtakenAtPercent.map { ", overtaken at \($0) %" } ?? ""
        let h2loadText = h2loadMicrosecondsPerPush.map { ", h2load \(decimalText($0)) µs a push" } ?? ""
        return """
            \(Numeral.grouped(members)) members, \(workers == 1 ? "one worker" : "\(workers) workers")\(overtakenText): \
            \(outcomes.joined(separator: ", ")) in \(decimalText(seconds)) s
            \(Numeral.grouped(pushes)) pushes; \(Numeral.grouped(resultRecords)) result records\(resultsAddUp ? "" : ", which do not add up")
            CPU time of the worker \(decimalText(workerCPUMicrosecondsPerPush)) µs a push\(h2loadText), redis-server \(decimalText(redisCPUMicrosecondsPerPush)) µs
            memory of the worker \(Numeral.mebibytes(workerPeakMemoryBytes)) at its peak, of a member in Redis \(decimalText(redisBytesPerMember)) bytes
            \(singleCommandsText)joined in \(decimalText(joinSeconds)) s, \(decimalText(redisMicrosecondsPerJoin)) µs of redis-server each
            \(Numeral.grouped(members - wrong)) of \(Numeral.grouped(members)) phones show the newest state; \(Numeral.grouped(reversed)) went back \
            in time, \(Numeral.grouped(alertedTwice)) got an alert twice, \(Numeral.grouped(unalerted)) got none
            """
    }

    private var singleCommandsText: String {
        guard let singleBefore, let singleDuring else { return "" }
        return """
            single commands: half within \(singleBefore.p50Milliseconds) ms, 99 of 100 within \(singleBefore.p99Milliseconds) ms; beside the \
            round \(singleDuring.p50Milliseconds) and \(singleDuring.p99Milliseconds) ms (\(Numeral.grouped(singleDuring.commands)) commands)

            """
    }

    private func decimalText(_ value: Double) -> String {
        guard value.isFinite, value.magnitude < 1e12 else { return "?" }
        return Numeral.twoDecimals(hundredths: Int((value * 100).rounded()))
    }
}
