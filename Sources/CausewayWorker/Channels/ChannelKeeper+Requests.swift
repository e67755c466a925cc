/// What a lane asks the keeper.
package struct ChannelRequest: Sendable, Hashable {
    package enum Kind: Sendable, Hashable {
        /// A command to the audience is to be broadcast.
        case wanted
        /// The audience has accepted its end; a stored message may be delivered until then (UNIX milliseconds, 0: none is).
        case ended(storedUntilMilliseconds: Int64)
        /// APNs does not know this channel.
        case lost(channel: String)
    }

    package var kind: Kind
    /// The bundle id.
    package var app: String
    /// Nil: every environment in which the app has channels.
    package var environment: String?
    package var audience: String

    package init(_ kind: Kind, app: String, environment: String? = nil, audience: String) {
        self.kind = kind
        self.app = app
        self.environment = environment
        self.audience = audience
    }
}

/// What became of a request in one environment.
package enum ChannelAnswer: Sendable {
    case known(ChannelEntry)
    case refused(environment: String, ChannelRefusal)
}

extension ChannelKeeper {
    /// Answers requests until they end or its task is cancelled, at most ``requestsMax`` at a time, and looks after what is due meanwhile.
    ///
    /// - Parameter answer: is given every answer but those to `ended`, which asks for none. Redis has what it says already.
    package func run(
        _ requests: AsyncStream<ChannelRequest>,
        answer: @escaping @Sendable (ChannelRequest, ChannelAnswer) -> Void
    ) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.tendAll() }
            var underWay = 0
            for await request in requests {
                if underWay == Self.requestsMax {
                    await group.next()
                    underWay -= 1
                }
                underWay += 1
                group.addTask { await self.perform(request, answer: answer) }
            }
            group.cancelAll()
        }
        topic.close()
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
                    try end(request.audience, at: site, storedUntilMilliseconds: storedUntil)
                }
            } catch {
                answer(request, .refused(environment: environment, error))
            }
        }
    }

    /// Until its task is cancelled.
    private func tendAll() async {
        var hasRestored = !sites.contains(where: \.isDeclared)
        while !Task.isCancelled {
            if !hasRestored { hasRestored = restoreOrTell() }
            // What the topic has comes first: without it a channel of ours looks like a stranger's.
            if hasRestored { for site in sites { await tendOrTell(site) } }
            try? await Task.sleep(for: Self.tendingInterval)
        }
    }

    /// - Returns: whether Redis has what the topic has.
    private func restoreOrTell() -> Bool {
        do throws(ChannelRefusal) {
            try restore()
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
