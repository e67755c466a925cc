/// Records as a producer writes them. By default a command's id says what the command is: `u3` is the update of
/// activity `a` in second 3, and `b.e4` the end of activity `b` in second 4. Seconds count from the test's start.
enum CommandText {
    static let app = "com.example.match"

    /// - Parameters:
    ///   - beside: further fields of the record, written beside `aps`; each ends with a comma.
    ///   - inside: further fields of `aps`; each begins with a comma.
    static func update(
        _ second: Int64,
        of activity: String = "a",
        app: String = app,
        id: String? = nil,
        alert: Bool = false,
        beside: String = "",
        inside: String = ""
    ) -> String {
        let alert = alert ? #","alert":\#(self.alertJSON(second))"# : ""
        return command(
            "u",
            second,
            activity,
            app,
            id,
            beside,
            #""event":"update","content-state":{"n":\#(second)}\#(alert)\#(inside)"#
        )
    }

    /// The alert that an update or end of this second has with `alert: true`. Its text names the second.
    static func alertJSON(_ second: Int64) -> String { #"{"title":"Goal","body":"\#(alertText(second))"}"# }

    static func alertText(_ second: Int64) -> String { "\(second) : 0" }

    static func end(
        _ second: Int64,
        of activity: String = "a",
        id: String? = nil,
        alert: Bool = false,
        beside: String = ""
    ) -> String {
        let alert = alert ? #","alert":\#(self.alertJSON(second))"# : ""
        return command("e", second, activity, app, id, beside, #""event":"end"\#(alert)"#)
    }

    /// A start of an activity with attributes type `Match` on device `d`.
    static func start(
        _ second: Int64,
        of activity: String = "a",
        id: String? = nil,
        beside: String = "",
        inside: String = ""
    ) -> String {
        let aps =
            #""event":"start","attributes-type":"Match","attributes":{},"content-state":{"n":0},"#
            + #""alert":{"title":"Kick-off","body":"It begins"}\#(inside)"#
        return command("s", second, activity, app, id, #""device":"d","# + beside, aps)
    }

    static func registration(of activity: String = "a", at second: Int64 = 0) -> String {
        let registeredAt = (CoreHarness.startSeconds + second) * 1_000
        return
            #"{"app":"\#(app)","activity":"\#(activity)","token":"\#(CoreHarness.token)","environment":"production","#
            + #""registeredAt":\#(registeredAt)}"#
    }

    static func registration(of activity: String = "a", in audiences: [String]) -> String {
        #"{"audiences":\#(audiences),"# + registration(of: activity).dropFirst()
    }

    static func deviceRegistration(in audiences: [String]? = nil) -> String {
        let audiencesMember = audiences.map { #""audiences":\#($0),"# } ?? ""
        return
            #"{\#(audiencesMember)"app":"\#(app)","device":"d","attributesType":"Match","token":"\#(CoreHarness.token)","#
            + #""environment":"production","registeredAt":\#(CoreHarness.startSeconds * 1_000)}"#
    }

    /// Turns a command to activity `a` into a command to audience `m`.
    static func addressToAudience(_ command: String) -> String {
        command.replacing(#""activity":"a""#, with: #""audience":"m""#)
    }

    /// A start to audience `m`. It starts an activity on each device of the audience.
    static func startOfAudience(_ second: Int64) -> String {
        start(second).replacing(#""activity":"a""#, with: #""audience":"m","activity":"m/{device}""#)
            .replacing(#""device":"d","#, with: "")
    }

    private static func command(
        _ letter: String,
        _ second: Int64,
        _ activity: String,
        _ app: String,
        _ id: String?,
        _ beside: String,
        _ aps: String
    ) -> String {
        let id = id ?? (activity == "a" ? "" : "\(activity).") + "\(letter)\(second)"
        let timestamp = CoreHarness.startSeconds + second
        return
            #"{"app":"\#(app)","activity":"\#(activity)","id":"\#(id)",\#(beside)"aps":{"timestamp":\#(timestamp),\#(aps)}}"#
    }
}

/// Lets a test write `core.receive(.update(1), .end(2))`.
extension String {
    static func update(_ second: Int64, of activity: String = "a", beside: String = "") -> String {
        CommandText.update(second, of: activity, beside: beside)
    }
    static func alert(_ second: Int64, beside: String = "") -> String {
        CommandText.update(second, alert: true, beside: beside)
    }
    static func end(_ second: Int64, of activity: String = "a", beside: String = "") -> String {
        CommandText.end(second, of: activity, beside: beside)
    }
    static func start(_ second: Int64, of activity: String = "a", beside: String = "") -> String {
        CommandText.start(second, of: activity, beside: beside)
    }
}
