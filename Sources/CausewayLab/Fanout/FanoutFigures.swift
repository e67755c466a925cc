import Numbers

/// What a fan-out came to.
struct FanoutFigures: Codable, Equatable, RunFigures {
    var members: Int
    var workers: Int
    /// Nil: one command, which nothing overtook.
    var overtakenAtPercent: Int?
    /// From the first registration's record to the last that was settled.
    var joinSeconds: Double
    /// CPU time of redis-server for a registration of a member: the activity's record and the page.
    var redisMicrosecondsPerJoin: Double
    /// Of the pages, their directories and the audience's record, keys included.
    var redisBytesPerMember: Double
    /// From the last command's record to the last phone that shows it.
    var seconds: Double
    /// That APNs accepted.
    var pushes: Int
    /// CPU time of all workers from the command to its result, for each push.
    var workerMicrosecondsPerMember: Double
    var redisMicrosecondsPerMember: Double
    /// CPU time of h2load for a push of the same body to the same APNs: the mean of before and after. Nil: it did not run.
    var h2loadMicrosecondsPerPush: Double?
    /// Of resident memory from the command on, of the worker that had most.
    var workerPeakMemoryBytes: Int64
    /// Single commands to other phones; nil: none were written.
    var singleBefore: FanoutNeighbours.Freshness?
    /// The same, while the round was under way.
    var singleDuring: FanoutNeighbours.Freshness?
    /// From the first command on.
    var resultRecords: Int
    /// What the commands came to, the first of them first.
    var outcomes: [String]
    /// Whether the ranges' counts come to the commands', and those to the members.
    var resultsAddUp: Bool
    /// Phones that do not show the newest state.
    var wrong: Int
    /// Phones that were sent something older than what they showed.
    var reversed: Int
    var alertedTwice: Int
    /// Phones that the goal did not ring on.
    var unalerted: Int

    /// A result for each range, of which there are 256 at most, and the command's.
    static let resultsPerCommandMax = 257

    var isGood: Bool {
        wrong == 0 && reversed == 0 && alertedTwice == 0 && unalerted == 0 && resultsAddUp
            && resultRecords <= Self.resultsPerCommandMax * outcomes.count
    }

    var text: String {
        let overtaken = overtakenAtPercent.map { ", overtaken at \($0) %" } ?? ""
        let h2load = h2loadMicrosecondsPerPush.map { ", h2load \(number($0)) µs a push" } ?? ""
        return """
            \(Numeral.grouped(members)) members, \(workers == 1 ? "one worker" : "\(workers) workers")\(overtaken): \
            \(outcomes.joined(separator: ", ")) in \(number(seconds)) s
            \(Numeral.grouped(pushes)) pushes; \(Numeral.grouped(resultRecords)) records of results\(resultsAddUp ? "" : ", which do not add up")
            CPU time of the worker \(number(workerMicrosecondsPerMember)) µs a push\(h2load), redis-server \(number(redisMicrosecondsPerMember)) µs
            memory of the worker \(Numeral.mebibytes(workerPeakMemoryBytes)) at its peak, of a member in Redis \(number(redisBytesPerMember)) bytes
            \(single)joined in \(number(joinSeconds)) s, \(number(redisMicrosecondsPerJoin)) µs of redis-server each
            \(Numeral.grouped(members - wrong)) of \(Numeral.grouped(members)) phones show the newest state; \(Numeral.grouped(reversed)) went back \
            in time, \(Numeral.grouped(alertedTwice)) heard an alert twice, \(Numeral.grouped(unalerted)) heard none
            """
    }

    private var single: String {
        guard let singleBefore, let singleDuring else { return "" }
        return """
            single commands: half within \(singleBefore.p50Milliseconds) ms, 99 of 100 within \(singleBefore.p99Milliseconds) ms; beside the \
            round \(singleDuring.p50Milliseconds) and \(singleDuring.p99Milliseconds) ms (\(Numeral.grouped(singleDuring.commands)) commands)

            """
    }

    private func number(_ value: Double) -> String {
        guard value.isFinite, value.magnitude < 1e12 else { return "?" }
        return Numeral.twoDecimals(hundredths: Int((value * 100).rounded()))
    }
}
