import ActivityStore
import Delivery
import LiveActivity

@testable import Audiences

/// All subscribers of the audience's channel in one environment. They get the same broadcasts, so one value describes
/// them all.
struct SimulatedSubscribers {
    var shownTimestamp: Int64 = -1
    var shownContent = -1
    var alertCounts: [Int: Int] = [:]
    /// Whether an alert may ring twice, because the response to its broadcast was lost.
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
        if let last = worker.lastBroadcastAtMilliseconds[environment], nowMilliseconds - last < 1_000 {
            violations.append("two broadcasts within \(nowMilliseconds - last) ms")
        }
        worker.lastBroadcastAtMilliseconds[environment] = nowMilliseconds
    }

    func receiveBroadcast(_ push: SimulatedWorker.Push, isResponseLost: Bool) {
        guard var channelSubscribers = subscribers[push.environment] else {
            return violations.append("a broadcast to no channel")
        }
        let text = String(decoding: push.body, as: UTF8.self)
        guard let timestamp = SimulatedText.number(after: "\"timestamp\":", in: text),
            let content = SimulatedText.number(after: "\"c\":", in: text)
        else {
            return violations.append("a broadcast without a timestamp: \(text)")
        }
        trace?("\(nowMilliseconds % 1_000_000) broadcast \(content) at \(timestamp)")
        if isResponseLost { channelSubscribers.mayHaveRepeats = true }
        if let alert = SimulatedText.number(after: "alert-", in: text) {
            channelSubscribers.alertCounts[alert, default: 0] += 1
        }
        if timestamp < channelSubscribers.shownTimestamp {
            channelSubscribers.olderStateCount += 1
        } else {
            (channelSubscribers.shownTimestamp, channelSubscribers.shownContent) = (Int64(timestamp), content)
        }
        subscribers[push.environment] = channelSubscribers
    }

    func noteBroadcastResult(_ text: String) {
        trace?("\(nowMilliseconds % 1_000_000) \(text)")
        guard let command = SimulatedText.number(after: "\"command\":\"", in: text) else {
            return violations.append("a broadcast's result names no command: \(text)")
        }
        let isProduction = SimulatedText.contains("\"environment\":\"production\"", in: text)
        broadcastResults[command, default: [:]][isProduction ? .production : .sandbox] = text
    }

    /// Checks that each broadcast has a result. Checks also what the subscribers got: at the end the newest state,
    /// never an older state after a newer one, the newest alert, and no alert twice. Leaves out what a fault of the run
    /// may have caused.
    func checkChannels() {
        let sent = commands.filter { $0.wasFannedOut && !$0.isStart }
        for (environment, channelSubscribers) in subscribers {
            if let last = sent.last, channelSubscribers.shownContent != last.content, parameters.rejectionPerMille == 0
            {
                violations.append(
                    "the channel of \(environment) shows \(channelSubscribers.shownContent), not \(last.content)"
                )
            }
            for command in sent where broadcastResults[command.number]?[environment] == nil {
                violations.append("\(command.number) has no result of its broadcast in \(environment)")
            }
            guard !hadCrash, !hadForcedMove else { continue }
            if channelSubscribers.olderStateCount > 0 { violations.append("the channel of \(environment) went back") }
            guard !channelSubscribers.mayHaveRepeats, parameters.rejectionPerMille == 0 else { continue }
            // If a record was produced twice, two workers may read it, one after the other. Then its alert may ring
            // twice.
            for (alert, count) in channelSubscribers.alertCounts
            where count > 1 && parameters.produceFailurePerMille == 0 {
                violations.append("the channel of \(environment) heard the alert of \(alert) \(count) times")
            }
            guard let newest = sent.last(where: \.hasAlert)?.number else { continue }
            if channelSubscribers.alertCounts.keys.allSatisfy({ $0 < newest }) {
                violations.append("the channel of \(environment) did not get the alert of \(newest)")
            }
        }
    }
}
