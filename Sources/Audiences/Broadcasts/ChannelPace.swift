/// The pace of a channel. According to an Apple engineer, a channel takes about one update a second; APNs responds with
/// 429 to updates that come faster. Each 429 doubles the spacing, up to 64 s. Each accepted push halves the spacing,
/// down to 1 s.
enum ChannelPace {
    static let spacingMillisecondsMin: Int64 = 1_000
    static let spacingMillisecondsMax: Int64 = 64_000
    /// How long an idle channel keeps its slot, counted from the end of the pause after its last push. While it has the
    /// slot, the core recognizes records that are read again. The slot is freed earlier if a new channel needs it, or
    /// if the channel's partition is revoked.
    static let idleMillisecondsMax: Int64 = 300_000

    static func doubledSpacingMilliseconds(_ milliseconds: Int64) -> Int64 {
        min(milliseconds * 2, spacingMillisecondsMax)
    }

    static func halvedSpacingMilliseconds(_ milliseconds: Int64) -> Int64 {
        max(milliseconds / 2, spacingMillisecondsMin)
    }
}
