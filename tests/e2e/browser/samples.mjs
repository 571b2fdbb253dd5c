// Small profiles in formats of other tools.

export const PERF = `# captured on: Thu Nov 26
http worker 1  12/13 [003]  4711.123456:   10101010 cpu-clock:u:
\t    55d0 leaf(int (*)(char))+0x12 (/usr/bin/my app (deleted))
\t    55d1 main+0x1 (/usr/bin/app)

日志 12  4711.2:   500 cpu-clock:u:
\t    ffff [unknown] ([unknown])
\t    55d1 main+0x1 (/usr/bin/app)

odd
x 12  4711.2:   500 cpu-clock:u:      55d1 main+0x1 (/usr/bin/app)
`;

export const SPEEDSCOPE = JSON.stringify({
	shared: { frames: [{ name: 'main' }, { name: 'leaf', file: 'a.c', line: 3 }] },
	profiles: [
		{ type: 'sampled', name: 'worker', unit: 'nanoseconds', startValue: 0, endValue: 5, samples: [[0, 1], [0]], weights: [3, 2] },
		{ type: 'evented', name: 'worker', unit: 'nanoseconds', startValue: 0, endValue: 10, events: [{ type: 'O', at: 0, frame: 0 }, { type: 'O', at: 2, frame: 1 }, { type: 'C', at: 6, frame: 1 }, { type: 'C', at: 10, frame: 0 }] },
	],
});

export const CPUPROFILE = JSON.stringify({
	nodes: [
		{ id: 1, callFrame: { functionName: '(root)', url: '', lineNumber: -1 }, children: [2] },
		{ id: 2, callFrame: { functionName: 'main', url: 'a.js', lineNumber: 0 }, hitCount: 1, children: [3] },
		{ id: 3, callFrame: { functionName: '', url: 'a.js', lineNumber: 4 }, hitCount: 2 },
	],
	startTime: 100, endTime: 200, samples: [2, 3, 3], timeDeltas: [10, 20, 30],
});
