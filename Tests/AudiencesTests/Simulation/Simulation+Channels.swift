import ActivityStore
import Delivery
import LiveActivity

@testable import Audiences

/// All subscribers of the audience's channel in one environment. They get the same broadcasts, so one value
/// describes them all.
struct SimulatedSubscribers {
    var shownTimestamp: Int64 = -1
    var shownContent = -1
    var alertCounts: [Int: Int] = [:]
    /// Whether an alert may ring again, because the response to its broadcast was lost.
    var mayHaveRepeats = false
    /// The number of broadcasts with an older timestamp than the shown state.
    var olderStateCount = 0
}

/// The audience's channels.
extension Simulation {
    func makeChannels() {
        guard parameters.kind.hasChannels else { return }
        for environment in APNsEnvironment.allCases where environment == .production || parameters.sandboxPerMille > 0 {
            let text = environment == .production ? "cHJvZHVjdGlvbg==" : "c2FuZGJveA=="
            guard let identifier = ChannelIdentifier(text) else { preconditionFailure("base64 text") }
            let channel = AudienceChannel(environment: environment, storage: .newest, identifier: identifier)
            let app = Array(Self.app.utf8)
            store.setChannel(channel, in: environment, of: Self.audienceDigest, app: app)
            subscribers[environment] = SimulatedSubscribers()
        }
    }

    /// Checks that a worker broadcasts to a channel at most once a second while its partitions stay the same.
    func checkBroadcastSpacing(_ push: AudiencePush, _ environment: APNsEnvironment, _ worker: SimulatedWorker) {
        guard push.isBroadcast else { return }
        if let last = worker.lastBroadcastMilliseconds[environment], nowMilliseconds - last < 1_000 {
            violations.append("two broadcasts within \(nowMilliseconds - last) ms")
        }
        worker.lastBroadcastMilliseconds[environment] = nowMilliseconds
    }

    func receiveBroadcast(_ push: SimulatedWorker.Push, isResponseLost: Bool) {
        guard var all = subscribers[push.environment] else {
            return violations.append("a broadcast to no channel")
        }
        let text = String(decoding: push.body, as: UTF8.self)
        guard let timestamp = SimulatedText.number(after: "\"timestamp\":", in: text),
            let content = SimulatedText.number(after: "\"c\":", in: text)
        else {
            return violations.append("a broadcast without a timestamp: \(text)")
        }
        trace?("\(nowMilliseconds % 1_000_000) broadcast \(content) at \(timestamp)")
        if isResponseLost { all.mayHaveRepeats = true }
        if let alert = SimulatedText.number(after: "alert-", in: text) { all.alertCounts[alert, default: 0] += 1 }
        if timestamp < all.shownTimestamp {
            all.olderStateCount += 1
        } else {
            (all.shownTimestamp, all.shownContent) = (Int64(timestamp), content)
        }
        subscribers[push.environment] = all
    }

    func recordBroadcastResult(_ text: String) {
        trace?("\(nowMilliseconds % 1_000_000) \(text)")
        guard let command = SimulatedText.number(after: "\"command\":\"", in: text) else {
            return violations.append("a broadcast's result names no command: \(text)")
        }
        let isProduction = SimulatedText.contains("\"environment\":\"production\"", in: text)
        broadcastResults[command, default: [:]][isProduction ? .production : .sandbox] = text
    }

    /// Checks that each broadcast has a result. Also checks the subscribers, except in runs whose faults may change the
    /// result: they end with the newest state, never go back to an older one, hear the newest alert, and hear no alert
    /// twice.
    func checkChannels() {
        let sent = commands.filter { $0.isSent && !$0.isStart }
        for (environment, all) in subscribers {
            if let last = sent.last, all.shownContent != last.content, parameters.rejectionPerMille == 0 {
                violations.append("the channel of \(environment) shows \(all.shownContent), not \(last.content)")
            }
            for command in sent where broadcastResults[command.number]?[environment] == nil {
                violations.append("\(command.number) has no result of its broadcast in \(environment)")
            }
            guard !hadCrash, !hadForcedMove else { continue }
            if all.olderStateCount > 0 { violations.append("the channel of \(environment) went back") }
            guard !all.mayHaveRepeats, parameters.rejectionPerMille == 0 else { continue }
            // If a record was produced twice, two workers may read it, one after the other. Then its alert
            // may ring twice.
            for (alert, count) in all.alertCounts where count > 1 && parameters.produceFailurePerMille == 0 {
                violations.append("the channel of \(environment) heard the alert of \(alert) \(count) times")
            }
            guard let newest = sent.last(where: \.hasAlert)?.number else { continue }
            if all.alertCounts.keys.allSatisfy({ $0 < newest }) {
                violations.append("the channel of \(environment) did not get the alert of \(newest)")
            }
        }
    }
}
