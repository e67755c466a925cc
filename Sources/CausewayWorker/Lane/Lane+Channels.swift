import APNs
import Audiences
import LiveActivity
import Synchronization

/// The channel keeper's response to the lanes about an audience's channel in one environment.
struct LaneChannelResponse: Sendable {
    /// What the keeper says. `ChannelResponse` has the same cases, and describes them.
    enum Content: Sendable {
        case channel(AudienceChannel)
        case endNoted
        case lookedUp(isFound: Bool)
        case failed(isRegistryComplete: Bool)
    }

    var appIndex: UInt16
    var audienceDigest: AudienceDigest
    var environment: APNsEnvironment
    var content: Content
}

/// A queue of the channel keeper's responses that a lane has not taken yet.
final class LaneChannelResponseQueue: Sendable {
    /// The maximum number of responses that wait (R4). Further ones are discarded. A core that waits too long for a
    /// response goes on without the channel, or requests the response again (`Audiences.handleChannelWaitTimeout`; for
    /// the broadcasts of a lost channel, `Audiences+LostChannels`).
    private static let responsesMax = 1_024

    private let responses = Mutex<[LaneChannelResponse]>([])
    private let isEmpty = Atomic<Bool>(true)

    func append(_ response: LaneChannelResponse) {
        responses.withLock { responses in
            if responses.count < Self.responsesMax { responses.append(response) }
        }
        isEmpty.store(false, ordering: .releasing)
    }

    /// Removes and returns all responses. Takes no lock if there are none, because the lane calls this in each
    /// iteration.
    func takeAll() -> [LaneChannelResponse] {
        guard !isEmpty.load(ordering: .acquiring) else { return [] }
        isEmpty.store(true, ordering: .relaxed)
        return responses.withLock { responses in
            defer { responses.removeAll() }
            return responses
        }
    }
}

extension Lane {
    /// Exchanges requests and responses between the core for audiences and the keeper of channels.
    func exchangeChannelMessages() {
        for response in mailbox.channelResponses.takeAll() {
            let (appIndex, audience) = (response.appIndex, response.audienceDigest)
            switch response.content {
            case .channel(let channel):
                audiences.handleProvidedChannel(appIndex: appIndex, audience: audience, channel, now: now)
            case .endNoted:
                audiences.handleNotedAudienceEnd(
                    appIndex: appIndex,
                    audience: audience,
                    environment: response.environment
                )
            case .lookedUp(let isFound):
                audiences.handleChannelLookup(
                    appIndex: appIndex,
                    audience: audience,
                    environment: response.environment,
                    isFound: isFound,
                    now: now
                )
            case .failed(let isRegistryComplete):
                audiences.handleRefusedChannel(
                    appIndex: appIndex,
                    audience: audience,
                    environment: response.environment,
                    isRegistryComplete: isRegistryComplete,
                    now: now
                )
            }
        }
        while let request = audiences.takeChannelRequest() {
            setup.sendChannelRequest(ChannelRequest(request, bundleIds: setup.bundleIds))
        }
    }
}

extension ChannelRequest {
    fileprivate init(_ request: CoreChannelRequest, bundleIds: [[UInt8]]) {
        let (app, audience) = (
            String(decoding: bundleIds[Int(request.appIndex)], as: UTF8.self),
            String(decoding: request.audience, as: UTF8.self)
        )
        switch request.kind {
        case .wanted: self.init(.wanted, app: app, audience: audience)
        case .ended(let storedUntilWallMilliseconds):
            self.init(
                .ended(storedUntilWallMilliseconds: storedUntilWallMilliseconds),
                app: app,
                audience: audience
            )
        case .sought: self.init(.sought, app: app, audience: audience)
        case .lost(let channel):
            let environment = "\(channel.environment.name)"
            self.init(.lost(channel: "\(channel.identifier)"), app: app, environment: environment, audience: audience)
        }
    }
}

extension AudienceChannel {
    init?(_ entry: ChannelEntry) {
        guard let environment = APNsEnvironment.allCases.first(where: { "\($0.name)" == entry.environment }),
            let identifier = ChannelIdentifier(entry.channel)
        else { return nil }
        let storage: ChannelStoragePolicy = entry.storage == .newest ? .newest : .none
        self.init(environment: environment, storage: storage, identifier: identifier)
    }
}
