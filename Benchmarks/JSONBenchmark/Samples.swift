/// The records to decode, as a producer would write them.
enum Sample: String, CaseIterable {
    /// An update of a match with an alert, 456 bytes of ASCII.
    case update
    /// The same match, with names that are not ASCII and an escape.
    case international
    /// An update with only the required fields.
    case small
    /// A record of 3,736 bytes: 128 short fields in the content state.
    case large

    var bytes: [UInt8] { Array(text.utf8) }

    private var text: String {
        switch self {
        case .update:
            """
            {"app":"com.example.scores","activity":"match-2026-061:device-7f3a","id":"feed-7/000481516","sequence":42,\
            "aps":{"timestamp":1790000000,"event":"update","content-state":{"home":2,"away":1,"period":"second half",\
            "minute":67,"startedAt":810748800,"last":{"kind":"goal","minute":66},"scorers":["Olmo","Kane","Saka"]},\
            "stale-date":1790000600,"relevance-score":80,"alert":{"title":"Goal","body":"Kane scores, 2:1",\
            "sound":"default"}},"payload":{"match":"m-61"}}
            """
        case .international:
            """
            {"app":"com.example.scores","activity":"match-2026-061:device-7f3a","id":"feed-7/000481516","sequence":42,\
            "aps":{"timestamp":1790000000,"event":"update","content-state":{"home":2,"away":1,"period":"2. Halbzeit",\
            "minute":67,"startedAt":810748800,"last":{"kind":"goal","minute":66},"scorers":["Özil","Müller","Šeško"]},\
            "stale-date":1790000600,"relevance-score":80,"alert":{"title":"ゴール","body":"Müller: \\"2:1\\"",\
            "sound":"default"}},"payload":{"match":"m-61"}}
            """
        case .small:
            """
            {"app":"com.example.scores","activity":"m61:7f3a","aps":{"timestamp":1790000000,"event":"update",\
            "content-state":{"home":2,"away":1}}}
            """
        case .large:
            """
            {"app":"com.example.scores","activity":"m61:7f3a","aps":{"timestamp":1790000000,"event":"update",\
            "content-state":{\((0..<128).map { "\"player\($0)\":[\($0),\"name\",true]" }.joined(separator: ","))}}}
            """
        }
    }
}
