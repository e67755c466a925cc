/// A lane's request to the keeper.
package struct ChannelRequest: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// A command needs a channel for its broadcast.
        case wanted
        /// The audience's end was admitted. APNs may deliver a stored message until this time, UNIX milliseconds; 0 if none is stored.
        case ended(storedUntilMilliseconds: Int64)
        /// APNs does not know this channel any more.
        case lost(channel: String)
    }

    package var kind: Kind
    /// The bundle id.
    package var app: String
    /// Nil for every environment in which the app has channels.
    package var environment: String?
    package var audience: String

    package init(_ kind: Kind, app: String, environment: String? = nil, audience: String) {
        self.kind = kind
        self.app = app
        self.environment = environment
        self.audience = audience
    }
}

/// The answer to a request, for one environment.
package enum ChannelAnswer: Sendable {
    case known(ChannelEntry)
    case refused(environment: String, ChannelRefusal)
}

/// The requests for one audience. The keeper carries them out one after the other.
struct AudienceLine: Hashable {
    var app: String
    var audience: String
}

extension ChannelKeeper {
    /// Carries out requests, at most ``requestsMax`` at a time, and the periodic work, until the requests end or its task is cancelled.
    ///
    /// - Parameter answer: takes the answers to `wanted` and `lost`. For `ended` it takes only refusals.
    package func run(
        _ requests: AsyncStream<ChannelRequest>,
        answer: @escaping @Sendable (ChannelRequest, ChannelAnswer) -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.tendAll() }
            var (underWay, number) = (0, 0)
            for await request in requests {
                if underWay == Self.requestsMax {
                    await group.next()
                    underWay -= 1
                }
                underWay += 1
                number += 1
                let (line, turn) = (AudienceLine(app: request.app, audience: request.audience), number)
                lines[line, default: []].append(turn)
                group.addTask {
                    await self.awaitTurn(turn, in: line)
                    if !Task.isCancelled { await self.perform(request, answer: answer) }
                    await self.endTurn(turn, in: line)
                }
            }
            group.cancelAll()
        }
        topic.close()
    }

    /// Waits for earlier requests of the same audience. A creation takes seconds, and an end that comes meanwhile must count after it.
    private func awaitTurn(_ turn: Int, in line: AudienceLine) async {
        while lines[line]?.first != turn, !Task.isCancelled { try? await Task.sleep(for: Self.waitingInterval) }
    }

    private func endTurn(_ turn: Int, in line: AudienceLine) {
        lines[line]?.removeAll { $0 == turn }
        if lines[line]?.isEmpty == true { lines[line] = nil }
    }

    private func perform(
        _ request: ChannelRequest,
        answer: @Sendable (ChannelRequest, ChannelAnswer) -> Void
    ) async {
        for site in sites where site.place.app == request.app {
            let environment = site.place.environment
            if let only = request.environment, only != environment { continue }
            do throws(ChannelRefusal) {
                switch request.kind {
                case .wanted:
                    answer(request, .known(try await ensure(request.audience, at: site)))
                case .lost(let channel):
                    answer(request, .known(try await replace(channel, of: request.audience, at: site)))
                case .ended(let storedUntil):
                    try await end(request.audience, at: site, storedUntilMilliseconds: storedUntil)
                }
            } catch {
                answer(request, .refused(environment: environment, error))
            }
        }
    }

    /// Repeats the periodic work until its task is cancelled. Looks more often whether Redis has lost the register.
    private func tendAll() async {
        var (tendingDue, restoringDue) = (ContinuousClock.now, ContinuousClock.now)
        while !Task.isCancelled {
            if ContinuousClock.now >= restoringDue {
                let pause = restoreOrTell() ? Self.lookingInterval : Self.restoringPause
                restoringDue = ContinuousClock.now + pause
            }
            if ContinuousClock.now >= tendingDue {
                for site in sites { await tendOrTell(site) }
                tendingDue = ContinuousClock.now + Self.tendingInterval
            }
            try? await Task.sleep(for: Self.lookingInterval)
        }
    }

    /// - Returns: whether Redis has what the topic has.
    private func restoreOrTell() -> Bool {
        do throws(ChannelRefusal) {
            try restoreLost()
            return true
        } catch {
            note(.trouble(error.text, app: nil, environment: nil))
            return false
        }
    }

    /// One app's trouble keeps no other from being looked after.
    private func tendOrTell(_ site: Site) async {
        do throws(ChannelRefusal) {
            try await tend(site)
        } catch {
            note(.trouble(error.text, app: site.place.app, environment: site.place.environment))
        }
    }
}
