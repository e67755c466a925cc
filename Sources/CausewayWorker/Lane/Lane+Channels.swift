import APNs
import Audiences
import LiveActivity
import Synchronization

/// The keeper's answer about the channel of an audience.
struct KnownChannel: Sendable {
    var application: UInt16
    var audience: AudienceDigest
    var environment: DeviceEnvironment
    /// Nil: the channel could not be created.
    var channel: AudienceChannel?
}

/// Answers of the keeper that a lane has not taken yet.
final class KnownChannels: Sendable {
    /// If an answer finds no place, the audience's next command finds the channel in the store.
    private static let countMax = 1_024

    private let channels = Mutex<[KnownChannel]>([])
    private let isEmpty = Atomic<Bool>(true)

    func offer(_ channel: KnownChannel) {
        channels.withLock { channels in
            if channels.count < Self.countMax { channels.append(channel) }
        }
        isEmpty.store(false, ordering: .releasing)
    }

    /// If there are no answers, this only reads a flag.
    func take() -> [KnownChannel] {
        guard !isEmpty.load(ordering: .acquiring) else { return [] }
        isEmpty.store(true, ordering: .relaxed)
        return channels.withLock { channels in
            defer { channels.removeAll() }
            return channels
        }
    }
}

extension Lane {
    /// Exchanges requests and answers between the core for audiences and the keeper of channels.
    func exchangeChannels() {
        for known in mailbox.knownChannels.take() {
            let (application, audience) = (known.application, known.audience)
            if let channel = known.channel {
                audiences.channelKnown(application: application, audience: audience, channel, now: now)
            } else {
                audiences.channelRefused(
                    application: application,
                    audience: audience,
                    environment: known.environment,
                    now: now
                )
            }
        }
        while let need = audiences.nextChannelNeed() {
            setup.requestChannel(ChannelRequest(need, of: setup.applications))
        }
    }
}

extension ChannelRequest {
    fileprivate init(_ need: ChannelNeed, of applications: [[UInt8]]) {
        let (app, audience) = (
            String(decoding: applications[Int(need.application)], as: UTF8.self),
            String(decoding: need.audience, as: UTF8.self)
        )
        switch need.kind {
        case .wanted: self.init(.wanted, app: app, audience: audience)
        case .ended(let until): self.init(.ended(storedUntilMilliseconds: until), app: app, audience: audience)
        case .lost(let channel):
            let environment = "\(channel.environment.name)"
            self.init(.lost(channel: "\(channel.identifier)"), app: app, environment: environment, audience: audience)
        }
    }
}

extension AudienceChannel {
    init?(_ entry: ChannelEntry) {
        guard let environment = DeviceEnvironment.allCases.first(where: { "\($0.name)" == entry.environment }),
            let identifier = ChannelIdentifier(entry.channel)
        else { return nil }
        let storage: ChannelStorage = entry.storage == .newest ? .newest : .none
        self.init(environment: environment, storage: storage, identifier: identifier)
    }
}
