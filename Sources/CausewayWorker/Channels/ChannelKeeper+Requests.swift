/// A lane's request to the channel keeper. It has the content of a core's request (`CoreChannelRequest`), with the
/// app's bundle id instead of the app's index.
package struct ChannelRequest: Sendable, Hashable {
    /// What the lane asks of the keeper. `CoreChannelRequest.Kind` has the same cases, and describes them.
    package enum Kind: Sendable, Hashable {
        case wanted
        case ended(storedUntilWallMilliseconds: Int64)
        case sought
        case lost(channel: String)
    }

    package var kind: Kind
    /// The bundle id.
    package var app: String
    /// Nil means all environments in which the app has channels.
    package var environment: String?
    package var audience: String

    package init(_ kind: Kind, app: String, environment: String? = nil, audience: String) {
        self.kind = kind
        self.app = app
        self.environment = environment
        self.audience = audience
    }
}

/// The response to a request, for one environment.
package enum ChannelResponse: Sendable {
    case channel(ChannelEntry)
    /// The keeper has noted the end of the audience (`planDeletionAfterEnd`). If the audience has an active channel,
    /// its hash in Redis has this channel.
    case endNoted(environment: String)
    /// `isFound`: whether the audience has an active channel, which its hash in Redis then has too. False: the registry
    /// has no active channel of the audience. Or the app is not known to use channels, and its registry cannot be
    /// restored.
    case lookedUp(environment: String, isFound: Bool)
    /// `isRegistryComplete`: false if the registry may lack a channel of the audience.
    case failed(environment: String, ChannelFailure, isRegistryComplete: Bool)
}

extension ChannelKeeper {
    /// Carries out requests and the periodic work, and restores registries, until `requests` ends or the task is
    /// cancelled. Then closes the producer of the channels topic.
    ///
    /// - Parameter respond: gets one response for each environment of a request, with the request for this environment.
    ///   It gets none if an equal request already waits, if too many requests of the app wait, or after the task is
    ///   cancelled.
    package func run(
        _ requests: AsyncStream<ChannelRequest>,
        respond: @escaping @Sendable (ChannelRequest, ChannelResponse) -> Void
    ) async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.repeatRestoration() }
            group.addTask { await self.repeatPeriodicWork() }
            for await request in requests {
                for environmentRequest in divideByEnvironment(request) {
                    // A look-up needs no response of APNs, so it must not wait for a permit: creations may have all
                    // permits for minutes. A look-up also need not wait for earlier requests of the audience, because
                    // it only writes to the hash what the registry says.
                    guard environmentRequest.kind != .sought else {
                        await carryOut(environmentRequest, respond: respond)
                        continue
                    }
                    guard requestQueues.add(environmentRequest), requestQueues.acquirePermit() else { continue }
                    group.addTask { await self.carryOutReadyRequests(respond: respond) }
                }
            }
            group.cancelAll()
        }
        channelTopic.close()
    }

    /// Divides a request into one request for each environment that it is about. So if the APNs host of one environment
    /// does not respond, requests for the app's other environment do not wait. (R22)
    private func divideByEnvironment(_ request: ChannelRequest) -> [ChannelRequest] {
        managedEnvironments.map(\.appEnvironment)
            .filter { $0.app == request.app && (request.environment ?? $0.environment) == $0.environment }
            .map { ChannelRequest(request.kind, app: $0.app, environment: $0.environment, audience: request.audience) }
    }

    /// Carries out one request after another until no request may begin. Then releases the permit that the caller has
    /// taken (`acquirePermit`). After a cancellation, discards the requests.
    private func carryOutReadyRequests(respond: @Sendable (ChannelRequest, ChannelResponse) -> Void) async {
        while let request = requestQueues.beginNextReadyRequest() {
            if !Task.isCancelled { await carryOut(request, respond: respond) }
            requestQueues.finish(request)
        }
        requestQueues.releasePermit()
    }

    /// Carries out one request in each environment that it names, and passes one response for each environment to
    /// `respond`.
    private func carryOut(
        _ request: ChannelRequest,
        respond: @Sendable (ChannelRequest, ChannelResponse) -> Void
    ) async {
        for managedEnvironment in managedEnvironments where managedEnvironment.appEnvironment.app == request.app {
            let environment = managedEnvironment.appEnvironment.environment
            if let requestedEnvironment = request.environment, requestedEnvironment != environment { continue }
            do throws(ChannelFailure) {
                switch request.kind {
                case .wanted:
                    respond(request, .channel(try await ensureChannel(of: request.audience, at: managedEnvironment)))
                case .lost(let channel):
                    respond(request, .channel(try await replace(channel, of: request.audience, at: managedEnvironment)))
                case .ended(let storedUntilWallMilliseconds):
                    try await planDeletionAfterEnd(
                        of: request.audience,
                        at: managedEnvironment,
                        storedUntilWallMilliseconds: storedUntilWallMilliseconds
                    )
                    respond(request, .endNoted(environment: environment))
                case .sought:
                    let isFound = try restoreChannelInHash(of: request.audience, at: managedEnvironment)
                    respond(request, .lookedUp(environment: environment, isFound: isFound))
                }
            } catch {
                let isLookupPaused =
                    request.kind == .sought && findLookupFailure(managedEnvironment.appEnvironment) != nil
                let isRegistryComplete =
                    !isLookupPaused && (try? registry.isComplete(managedEnvironment.appEnvironment)) ?? false
                respond(request, .failed(environment: environment, error, isRegistryComplete: isRegistryComplete))
            }
        }
    }

    /// Checks about every second whether Redis has lost a registry or hashes of audiences, and restores what is lost.
    /// Waits 5 s after a failure. Runs until its task is cancelled. This work has a task of its own, because the
    /// periodic work may wait for APNs for minutes.
    private func repeatRestoration() async {
        let failurePause = Duration.milliseconds(Self.restorationPauseMilliseconds)
        while !Task.isCancelled {
            try? await Task.sleep(for: restoreOrReportError() ? Self.registryLossCheckInterval : failurePause)
        }
    }

    /// Does the periodic work for all apps and environments, about every minute, until the task is cancelled.
    private func repeatPeriodicWork() async {
        while !Task.isCancelled {
            for managedEnvironment in managedEnvironments { await doPeriodicWorkOrReportError(for: managedEnvironment) }
            try? await Task.sleep(for: Self.periodicWorkInterval)
        }
    }

    /// Restores incomplete registries from the channels topic. Then writes all channels to the audiences' hashes again
    /// if Redis may have lost some of these hashes, even if a registry could not be restored. Reports failures and
    /// throws none.
    ///
    /// - Returns: whether there was no failure. All registries in use are then complete.
    private func restoreOrReportError() -> Bool {
        let areRegistriesComplete = runReportingErrors { () throws(ChannelFailure) in
            try restoreIncompleteRegistries()
        }
        let areHashesWritten = runReportingErrors { () throws(ChannelFailure) in try rewritePossiblyLostHashes() }
        return areRegistriesComplete && areHashesWritten
    }

    private func runReportingErrors(_ body: () throws(ChannelFailure) -> Void) -> Bool {
        do throws(ChannelFailure) {
            try body()
            return true
        } catch {
            report(.failed(reason: error.reason, app: nil, environment: nil))
            return false
        }
    }

    /// Does the periodic work for one app in one environment. Reports an error as an event, so that the work for other
    /// apps and environments continues.
    private func doPeriodicWorkOrReportError(for managedEnvironment: ManagedEnvironment) async {
        do throws(ChannelFailure) {
            try await doPeriodicWork(for: managedEnvironment)
        } catch {
            report(
                .failed(
                    reason: error.reason,
                    app: managedEnvironment.appEnvironment.app,
                    environment: managedEnvironment.appEnvironment.environment
                )
            )
        }
    }
}
